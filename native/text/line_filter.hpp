// Lines that are removed from documents: those without a character of a set, and those of a list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "growing_buffer.hpp"
#include "text/point_set.hpp"
#include "text/utf8.hpp"
#include "url/hash_list.hpp"

namespace krill::text {

// Appends the lines that stay, with line ends between them; how many were removed. Whitespace around a line
// does not count, and blank lines stay. Without a set (nullptr), lines go by the list alone.
inline size_t remove_lines(std::string_view text, const PointSet* needed, const url::HashList& listed,
                           GrowingBuffer<uint8_t>& out) {
  size_t removed = 0;
  bool first = true;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const auto* const line = reinterpret_cast<const uint8_t*>(text.data()) + begin;
    size_t size = end - begin;
    const size_t leading = leading_whitespace(line, size).bytes;
    size_t kept = size - leading;
    kept -= trailing_whitespace(line + leading, kept).bytes;
    const bool drops = kept > 0 && ((needed != nullptr && !needed->any_in(line + leading, kept)) ||
                                    listed.has(text.substr(begin + leading, kept)));
    if (drops) {
      ++removed;
    } else {
      if (!first) out.push_back('\n');
      out.append(line, size);
      first = false;
    }
    begin = end + 1;
  }
  return removed;
}

}  // namespace krill::text
