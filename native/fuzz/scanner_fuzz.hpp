// Drives the scanner and the token finder, and aborts where they break their word: blocks give what
// characters give, any capacity gives the same, texts cut where they may be cut give the same, tokens are
// those of a plain search.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "text/scanner.hpp"
#include "text/scanner_words.hpp"
#include "text/token_finder.hpp"

namespace krill::fuzz {

using Bytes = std::vector<std::uint8_t>;
using Ends = std::vector<std::uint32_t>;

// Room for exactly `capacity` ends at a time, so that a sanitizer sees one too many.
inline Ends scan_in_steps(Pattern pattern, const Bytes& text, std::size_t capacity) {
  Ends ends;
  Ends step(capacity);
  while (ends.empty() ? !text.empty() : ends.back() < text.size()) {
    const std::size_t from = ends.empty() ? 0 : ends.back();
    const std::size_t count = scan_words(pattern, text.data(), text.size(), from, step.data(), capacity);
    expect(count > 0 && count <= capacity, "scanner: nothing found, or more than fits");
    expect(step[0] > from, "scanner: an empty word");
    ends.insert(ends.end(), step.begin(), step.begin() + static_cast<std::ptrdiff_t>(count));
  }
  expect(std::adjacent_find(ends.begin(), ends.end(), std::greater_equal<>()) == ends.end(),
         "scanner: not rising");
  expect(ends.empty() || ends.back() == text.size(), "scanner: not all of the text");
  return ends;
}

template <Pattern kPattern>
Ends scan_by_characters(const Bytes& text) {
  Ends ends;
  for (std::size_t place = 0; place < text.size(); ends.push_back(static_cast<std::uint32_t>(place)))
    place = scanner::word_end<kPattern>({text.data(), text.size()}, place);
  return ends;
}

// Both sides of a cut, scanned apart, give the words of the whole.
inline void check_cut(Pattern pattern, const Bytes& text, const Ends& whole, std::size_t cut) {
  const auto middle = text.begin() + static_cast<std::ptrdiff_t>(cut);
  Ends joined = scan_in_steps(pattern, {text.begin(), middle}, text.size());
  for (const std::uint32_t end : scan_in_steps(pattern, {middle, text.end()}, text.size()))
    joined.push_back(end + static_cast<std::uint32_t>(cut));
  expect(joined == whole, "scanner: a cut changes words");
}

template <Pattern kPattern>
void fuzz_pattern(const Bytes& text, std::size_t capacity) {
  const Ends whole = scan_in_steps(kPattern, text, std::max<std::size_t>(text.size(), 1));
  expect(whole == scan_by_characters<kPattern>(text), "scanner: blocks and characters differ");
  expect(whole == scan_in_steps(kPattern, text, capacity), "scanner: the capacity shows");
  const std::size_t last = last_cut(text.data(), text.size());
  if (last != 0) check_cut(kPattern, text, whole, last);
  const std::size_t first = first_cut(text.data(), text.size(), text.size() / 2);
  if (first < text.size()) check_cut(kPattern, text, whole, first);
}

inline void fuzz_words(Settings settings) {
  const std::size_t capacity = std::size_t{1} + settings.next() % 200;
  const Bytes text(settings.rest(), settings.rest() + settings.rest_size());
  fuzz_pattern<Pattern::gpt2>(text, capacity);
  fuzz_pattern<Pattern::cl100k>(text, capacity);
  fuzz_pattern<Pattern::o200k>(text, capacity);
  fuzz_pattern<Pattern::llama3>(text, capacity);
  fuzz_pattern<Pattern::qwen2>(text, capacity);
}

// The same cuts, from whichever side they are looked for, and wherever the buffer begins and ends.
inline void fuzz_cuts(Settings settings) {
  constexpr std::size_t kContext = 8;
  const Bytes text(settings.rest(), settings.rest() + settings.rest_size());
  for (std::size_t at = 0; (at = first_cut(text.data(), text.size(), at)) < text.size(); ++at) {
    const std::size_t begin = at - std::min(at, kContext);
    const std::size_t end = std::min(at + kContext, text.size());
    expect(first_cut(text.data() + begin, end - begin, at - begin) == at - begin, "cuts: not local");
    expect(last_cut(text.data(), end) >= at, "cuts: missed from the end");
  }
}

inline bool same_match(const TokenFinder::Match& a, const TokenFinder::Match& b) {
  return a.start == b.start && a.end == b.end && a.token == b.token;
}

inline bool find_plainly(const std::vector<std::string>& tokens, const std::string& text, std::size_t from,
                         TokenFinder::Match& match) {
  for (std::size_t start = from; start < text.size(); ++start) {
    bool found = false;
    for (std::uint32_t token = 0; token < tokens.size(); ++token) {
      const std::size_t end = start + tokens[token].size();
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
  const TokenFinder finder(tokens);
  const Bytes text(settings.rest(), settings.rest() + settings.rest_size());
  const std::string plain(text.begin(), text.end());
  TokenFinder::Match match{};
  TokenFinder::Match expected{};
  for (std::size_t from = 0;; from = match.end) {
    const bool found = finder.next(text.data(), text.size(), from, match);
    expect(found == find_plainly(tokens, plain, from, expected), "finder: missed a token, or made one up");
    if (!found) return;
    expect(same_match(match, expected), "finder: another token");
  }
}

}  // namespace krill::fuzz

inline void fuzz_scanner(const std::uint8_t* data, std::size_t size) {
  krill::fuzz::fuzz_words({data, size});
  krill::fuzz::fuzz_cuts({data, size});
  krill::fuzz::fuzz_finder({data, size});
}
