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

using Bytes = std::vector<uint8_t>;
using Ends = std::vector<uint32_t>;

// Room for exactly `capacity` ends at a time, so that a sanitizer sees one too many.
inline Ends scan_in_steps(text::Pattern pattern, const Bytes& text, size_t capacity) {
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

template <text::Pattern kPattern>
Ends scan_by_characters(const Bytes& text) {
  Ends ends;
  for (size_t place = 0; place < text.size(); ends.push_back(static_cast<uint32_t>(place)))
    place = text::word_end<kPattern>({text.data(), text.size()}, place);
  return ends;
}

// Both sides of a cut, scanned apart, give the words of the whole.
inline void check_cut(text::Pattern pattern, const Bytes& text, const Ends& whole, size_t cut) {
  const auto middle = text.begin() + static_cast<ptrdiff_t>(cut);
  Ends joined = scan_in_steps(pattern, {text.begin(), middle}, text.size());
  for (const uint32_t end : scan_in_steps(pattern, {middle, text.end()}, text.size()))
    joined.push_back(end + static_cast<uint32_t>(cut));
  expect(joined == whole, "scanner: a cut changes words");
}

template <text::Pattern kPattern>
void fuzz_pattern(const Bytes& text, size_t capacity) {
  const Ends whole = scan_in_steps(kPattern, text, std::max<size_t>(text.size(), 1));
  expect(whole == scan_by_characters<kPattern>(text), "scanner: blocks and characters differ");
  expect(whole == scan_in_steps(kPattern, text, capacity), "scanner: the capacity shows");
  const size_t last = text::last_cut(text.data(), text.size());
  if (last != 0) check_cut(kPattern, text, whole, last);
  const size_t first = text::first_cut(text.data(), text.size(), text.size() / 2);
  if (first < text.size()) check_cut(kPattern, text, whole, first);
}

inline void fuzz_words(Settings settings) {
  const size_t capacity = size_t{1} + settings.next() % 200;
  const Bytes text(settings.rest(), settings.rest() + settings.rest_size());
  fuzz_pattern<text::Pattern::gpt2>(text, capacity);
  fuzz_pattern<text::Pattern::cl100k>(text, capacity);
  fuzz_pattern<text::Pattern::o200k>(text, capacity);
  fuzz_pattern<text::Pattern::llama3>(text, capacity);
  fuzz_pattern<text::Pattern::qwen2>(text, capacity);
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
