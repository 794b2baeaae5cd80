// Where a document above the limit is cut.
//
// The rule, from the document's start: the piece is at most `limit` bytes and ends after the last paragraph
// break ("\n\n") in them, else after the last line break, else before the character that crosses the limit.
// The rest is treated the same way. The result depends on the document alone, never on how it was fed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "text/byte_scan.hpp"

namespace krill::corpus {

// The smallest limit: the longest UTF-8 character, so that a piece never has to cut one.
inline constexpr size_t kLeastDocumentLimit = 4;

// The largest limit: sums of a few limits can't overflow.
inline constexpr size_t kGreatestDocumentLimit = static_cast<size_t>(PTRDIFF_MAX) / 4;

inline size_t checked_document_limit(size_t limit) {
  if (limit < kLeastDocumentLimit) throw std::invalid_argument("max_document_bytes must be at least 4");
  if (limit > kGreatestDocumentLimit) throw std::invalid_argument("max_document_bytes is too large");
  return limit;
}

// The last boundary between UTF-8 characters at or before `limit`; needs text[limit]. In bytes that are not
// UTF-8 there may be none nearby, then the limit itself.
inline size_t character_border(const uint8_t* text, size_t limit) {
  for (size_t back = 0; back < 4 && back < limit; ++back) {
    if ((text[limit - back] & 0xC0) != 0x80) return limit - back;
  }
  return limit;
}

// The length of the first piece of a text longer than `limit`. Needs limit + 1 bytes.
inline size_t first_piece(const uint8_t* text, size_t limit) {
  const uint8_t* newline = text::find_last(text, text + limit, '\n');
  if (newline == nullptr) return character_border(text, limit);
  const uint8_t* last_newline = newline;
  while (newline != nullptr && newline != text) {
    if (newline[-1] == '\n') return static_cast<size_t>(newline - text) + 1;
    newline = text::find_last(text, newline, '\n');
  }
  return static_cast<size_t>(last_newline - text) + 1;
}

}  // namespace krill::corpus
