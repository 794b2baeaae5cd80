// Drives the set of literal patterns, the outline of JSON and the count of cuts, and aborts where they break
// their word: a pattern is found where a plain search finds it, pieces of a file give what the whole gives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "corpus/json_outline.hpp"
#include "fuzz/kernels_fuzz.hpp"
#include "text/cut_count.hpp"
#include "text/literal_set.hpp"

namespace krill::fuzz {

inline void fuzz_literal_set(std::string_view input) {
  if (input.empty()) return;
  const size_t count = static_cast<uint8_t>(input[0]) % 8;
  input.remove_prefix(1);
  std::vector<std::string> patterns;
  for (size_t number = 0; number < count && !input.empty(); ++number) {
    const size_t size = std::min<size_t>(1 + static_cast<uint8_t>(input[0]) % 12, input.size());
    patterns.emplace_back(input.substr(0, size));
    // Some stand in the text, some do not.
    input.remove_prefix(number % 2 == 0 ? size : 1);
  }
  text::LiteralSet set(patterns.size(), 0, false);
  for (const std::string& pattern : patterns) set.add(pattern);
  set.finish();
  std::vector<char> folded;
  const bool expected = std::any_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return input.find(pattern) != std::string_view::npos;
  });
  expect(set.found_in(std::string(input), folded) == expected, "literals: not what a plain search finds");
}

inline void fuzz_json_outline(std::string_view input) {
  const std::string text =
      "{\"model\":{\"vocab\":" + std::string(input) + ",\"merges\":[]},\"added_tokens\":[";
  corpus::JsonOutline whole(256);
  whole.feed(text);
  corpus::JsonOutline pieces(256);
  for (size_t at = 0; at < text.size(); at += 7) pieces.feed(std::string_view(text).substr(at, 7));
  expect(whole.complete() == pieces.complete(), "outline: pieces differ");
  expect(!whole.complete() || whole.text() == pieces.text(), "outline: pieces give another one");
  expect(whole.vocabulary.bytes <= text.size(), "outline: more bytes than there are");
}

inline void fuzz_literals(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  fuzz_literal_set(input);
  fuzz_json_outline(input);
  expect(text::cut_count(data, size) <= size, "cuts: more than bytes");
}

}  // namespace krill::fuzz
