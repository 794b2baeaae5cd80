// Cleaning a column of documents: bytes that are not UTF-8 out, whitespace off the ends, short ones dropped.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "text/column.hpp"

namespace krill::text {

struct CleanCounts {
  uint64_t not_text = 0;      // null rows, dropped
  uint64_t too_short = 0;     // dropped
  uint64_t invalid_utf8 = 0;  // repaired; a note, not a drop
};

struct CleanColumn {
  Buffer<int64_t> offsets;  // rows + 1 of them, from 0
  Buffer<uint8_t> data;
  Buffer<int64_t> kept;    // the row in the input of each row here
  Buffer<uint32_t> chars;  // code points
  CleanCounts counts;
};

// What Python would make of each document by bytes.decode("utf-8", "ignore"), then str.strip if `strip`,
// kept if len() >= min_chars. `null_mask` is one byte for each row (not 0 = null), or nullptr.
// The column must have been checked.
CleanColumn clean(const TextColumn& documents, const uint8_t* null_mask, bool strip, int64_t min_chars);

}  // namespace krill::text
