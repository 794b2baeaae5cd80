// The matches of a regular expression in a text, for what replaces them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "check.hpp"
#include "regex/regex.hpp"

namespace krill::normalize {

// Calls `found(begin, end)` for all matches, in the order in which the library goes through them.
template <class Found>
void for_each_match(const regex::Regex& pattern, const uint8_t* text, size_t size, Found&& found) {
  constexpr size_t kStretches = 256;
  expect(size < regex::Regex::kGap,
         "a text in which a regular expression is replaced must be smaller than 2 GiB");
  uint32_t ends[kStretches];
  for (size_t from = 0;;) {
    const size_t count = pattern.split(text, size, from, ends, kStretches);
    if (count == 0) return;
    for (size_t stretch = 0; stretch < count; ++stretch) {
      const size_t end = ends[stretch] & ~regex::Regex::kGap;
      if (ends[stretch] == end) found(from, end);
      from = end;
    }
  }
}

}  // namespace krill::normalize
