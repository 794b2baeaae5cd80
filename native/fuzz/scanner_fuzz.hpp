// Drives the scanner and the token finder, and aborts where they break their word: blocks give what
// characters give, any machine and any capacity the same, texts cut where they may be cut give the same,
// tokens are those of a plain search.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "fuzz/regex_fuzz.hpp"
#include "text/scanner.hpp"
#include "text/scanner_words.hpp"
#include "text/token_finder.hpp"
#include "tokenizer/scanner_pattern.hpp"

namespace krill::fuzz {

using Bytes = std::vector<uint8_t>;
using Ends = std::vector<uint32_t>;

// Room for exactly `capacity` ends at a time, so that a sanitizer sees one too many.
inline Ends scan_in_steps(const text::Pattern& pattern, const Bytes& text, size_t capacity) {
  Ends ends;
  Ends step(capacity);
  while (ends.empty() ? !text.empty() : ends.back() < text.size()) {
    const size_t from = ends.empty() ? 0 : ends.back();
    const size_t count = scan_words(pattern, text.data(), text.size(), from, step.data(), capacity);
    expect(count > 0 && count <= capacity, "scanner: nothing found, or more than fits");
    expect(step[0] > from, "scanner: an empty word");
    ends.insert(ends.end(), step.begin(), step.begin() + static_cast<ptrdiff_t>(count));
  }
  expect(std::adjacent_find(ends.begin(), ends.end(), std::greater_equal<>()) == ends.end(),
         "scanner: not rising");
  expect(ends.empty() || ends.back() == text.size(), "scanner: not all of the text");
  return ends;
}

template <text::Letters kLetters>
Ends scan_by_characters(const text::Pattern& pattern, const Bytes& text) {
  Ends ends;
  for (size_t place = 0; place < text.size(); ends.push_back(static_cast<uint32_t>(place)))
    place = text::word_end<kLetters>(pattern, {text.data(), text.size()}, place);
  return ends;
}

inline Ends scan_by_characters(const text::Pattern& pattern, const Bytes& text) {
  using enum text::Letters;
  switch (pattern.letters) {
    case after_blank: return scan_by_characters<after_blank>(pattern, text);
    case after_any: return scan_by_characters<after_any>(pattern, text);
    case with_marks: return scan_by_characters<with_marks>(pattern, text);
    case by_case: return scan_by_characters<by_case>(pattern, text);
  }
  return {};
}

// Both sides of a cut, scanned apart, give the words of the whole.
inline void check_cut(const text::Pattern& pattern, const Bytes& text, const Ends& whole, size_t cut) {
  const auto middle = text.begin() + static_cast<ptrdiff_t>(cut);
  Ends joined = scan_in_steps(pattern, {text.begin(), middle}, text.size());
  for (const uint32_t end : scan_in_steps(pattern, {middle, text.end()}, text.size()))
    joined.push_back(end + static_cast<uint32_t>(cut));
  expect(joined == whole, "scanner: a cut changes words");
}

// The blocks that every machine has, where this one may have others.
inline Ends scan_plainly(const text::Pattern& pattern, const Bytes& text) {
  Ends ends(text.size() + text::kScanRoom);
  ends.resize(scan_words_plainly(pattern, text.data(), text.size(), 0, ends.data(), ends.size()));
  return ends;
}

inline void fuzz_pattern(const text::Pattern& pattern, const Bytes& text, size_t capacity) {
  const Ends whole = scan_in_steps(pattern, text, std::max<size_t>(text.size(), 1));
  expect(whole == scan_plainly(pattern, text), "scanner: the machine shows");
  expect(whole == scan_by_characters(pattern, text), "scanner: blocks and characters differ");
  expect(whole == scan_in_steps(pattern, text, capacity), "scanner: the capacity shows");
  const size_t last = text::last_cut(text.data(), text.size());
  if (last != 0) check_cut(pattern, text, whole, last);
  const size_t first = text::first_cut(text.data(), text.size(), text.size() / 2);
  if (first < text.size()) check_cut(pattern, text, whole, first);
}

inline text::Pattern any_pattern(Settings& settings) {
  constexpr uint8_t kNumbers[] = {1, 3, text::Pattern::kAnyNumber};
  text::Pattern pattern{};
  pattern.letters = static_cast<text::Letters>(1 + settings.next() % 3);
  pattern.contractions = static_cast<text::Contractions>(settings.next() % 3);
  pattern.numbers = kNumbers[settings.next() % 3];
  pattern.slashes = settings.flag();
  pattern.ends_whole = settings.flag();
  return pattern;
}

// The scanner against the automaton of the pattern's regex, in well-formed text.
inline void fuzz_automaton(const text::Pattern& pattern, const std::string& text) {
  static std::map<std::string, regex::Regex> regexes;
  const std::string regex = tokenizer::regex_of(pattern);
  const auto [known, is_new] = regexes.try_emplace(regex, regex);
  const regex::Regex& made = known->second;
  expect(!is_new || tokenizer::pattern_of(*made.dfa()) == pattern,
         "scanner: a pattern is not known by its regex");
  const Bytes bytes(text.begin(), text.end());
  Ends ends(bytes.size());
  ends.resize(made.split(bytes.data(), bytes.size(), 0, ends.data(), ends.size()));
  expect(ends == scan_in_steps(pattern, bytes, std::max<size_t>(bytes.size(), 1)),
         "scanner: not the matches of its regex");
}

inline void fuzz_words(Settings settings) {
  const size_t capacity = size_t{1} + settings.next() % 200;
  const text::Pattern unnamed = any_pattern(settings);
  const Bytes text(settings.rest(), settings.rest() + settings.rest_size());
  for (const text::NamedPattern& known : text::kNamedPatterns) fuzz_pattern(known.pattern, text, capacity);
  fuzz_pattern(unnamed, text, capacity);
  fuzz_automaton(unnamed, well_formed_text(settings));
}

// The same cuts, from whichever side they are looked for, and wherever the buffer begins and ends.
inline void fuzz_cuts(Settings settings) {
  constexpr size_t kContext = 8;
  const Bytes text(settings.rest(), settings.rest() + settings.rest_size());
  for (size_t at = 0; (at = text::first_cut(text.data(), text.size(), at)) < text.size(); ++at) {
    const size_t begin = at - std::min(at, kContext);
    const size_t end = std::min(at + kContext, text.size());
    expect(text::first_cut(text.data() + begin, end - begin, at - begin) == at - begin, "cuts: not local");
    expect(text::last_cut(text.data(), end) >= at, "cuts: missed from the end");
  }
}

inline bool same_match(const text::TokenFinder::Match& a, const text::TokenFinder::Match& b) {
  return a.start == b.start && a.end == b.end && a.token == b.token;
}

inline bool find_plainly(const std::vector<std::string>& tokens, const std::string& text, size_t from,
                         text::TokenFinder::Match& match) {
  for (size_t start = from; start < text.size(); ++start) {
    bool found = false;
    for (uint32_t token = 0; token < tokens.size(); ++token) {
      const size_t end = start + tokens[token].size();
      if (text.compare(start, tokens[token].size(), tokens[token]) != 0 || (found && end <= match.end))
        continue;
      match = {start, end, token};
      found = true;
    }
    if (found) return true;
  }
  return false;
}

inline void fuzz_finder(Settings settings) {
  std::vector<std::string> tokens(settings.next() % 8);
  for (std::string& token : tokens) {
    token.resize(1 + settings.next() % 4);
    for (char& byte : token) byte = static_cast<char>(settings.next());
  }
  const text::TokenFinder finder(tokens);
  const Bytes text(settings.rest(), settings.rest() + settings.rest_size());
  const std::string plain(text.begin(), text.end());
  text::TokenFinder::Match match{};
  text::TokenFinder::Match expected{};
  for (size_t from = 0;; from = match.end) {
    const bool found = finder.next(text.data(), text.size(), from, match);
    expect(found == find_plainly(tokens, plain, from, expected), "finder: missed a token, or made one up");
    if (!found) return;
    expect(same_match(match, expected), "finder: another token");
  }
}

inline void fuzz_scanner(const uint8_t* data, size_t size) {
  fuzz_words({data, size});
  fuzz_cuts({data, size});
  fuzz_finder({data, size});
}

}  // namespace krill::fuzz
