// Some documents of a column, copied into a column of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "buffer.hpp"
#include "text/column.hpp"

namespace krill {

struct PickedColumn {
  Buffer<std::int64_t> offsets;  // rows + 1 of them, from 0
  Buffer<std::uint8_t> data;
};

// Those whose `keep` is not 0, which has one byte for each row. The column must have been checked.
inline PickedColumn pick_texts(const TextColumn& documents, const std::uint8_t* keep) {
  std::size_t kept = 0;
  std::size_t bytes = 0;
  for (std::size_t row = 0; row < documents.rows; ++row) {
    kept += keep[row] != 0;
    bytes += keep[row] != 0 ? documents.size(row) : 0;
  }
  PickedColumn picked{Buffer<std::int64_t>(kept + 1), Buffer<std::uint8_t>(bytes)};
  picked.offsets[0] = 0;
  std::size_t end = 0;
  std::size_t out = 0;
  for (std::size_t row = 0; row < documents.rows;) {
    if (keep[row] == 0) {
      ++row;
      continue;
    }
    const std::uint8_t* const begin = documents.begin(row);  // neighbours that are kept are copied at once
    const std::size_t before = end;
    for (; row < documents.rows && keep[row] != 0; ++row) {
      end += documents.size(row);
      picked.offsets[++out] = static_cast<std::int64_t>(end);
    }
    if (end != before) std::memcpy(picked.data.data() + before, begin, end - before);
  }
  return picked;
}

}  // namespace krill
