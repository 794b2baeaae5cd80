// Copies selected documents of a column into a new column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "text/column.hpp"

namespace krill::text {

struct PickedColumn {
  Buffer<int64_t> offsets;  // rows + 1 of them, from 0
  Buffer<uint8_t> data;
};

// The documents whose byte in `keep` is not 0. The column must have been checked.
inline PickedColumn pick_texts(const TextColumn& documents, const uint8_t* keep) {
  size_t kept = 0;
  size_t bytes = 0;
  for (size_t row = 0; row < documents.rows; ++row) {
    kept += keep[row] != 0;
    bytes += keep[row] != 0 ? documents.size(row) : 0;
  }
  PickedColumn picked{Buffer<int64_t>(kept + 1), Buffer<uint8_t>(bytes)};
  picked.offsets[0] = 0;
  size_t end = 0;
  size_t out = 0;
  for (size_t row = 0; row < documents.rows;) {
    if (keep[row] == 0) {
      ++row;
      continue;
    }
    const uint8_t* const begin = documents.begin(row);  // neighbours that are kept are copied at once
    const size_t before = end;
    for (; row < documents.rows && keep[row] != 0; ++row) {
      end += documents.size(row);
      picked.offsets[++out] = static_cast<int64_t>(end);
    }
    if (end != before) std::memcpy(picked.data.data() + before, begin, end - before);
  }
  return picked;
}

}  // namespace krill::text
