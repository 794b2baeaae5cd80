// The shuffled order of a dataset's rows, any stretch of it without what precedes. Holds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace krill::loading {

// Rows come in blocks that lie together on disk. The blocks are permuted; the rows, in the blocks' new order,
// are cut into windows, of which the last takes what is left over; and inside each window rows are permuted.
struct RowOrder {
  uint64_t rows;
  uint64_t block_rows;
  uint64_t window;
  std::vector<uint64_t> key;

  // The rows at places `start` to `start + count` of the order. Throws std::invalid_argument for sizes of 0
  // or above 2^62, and for places beyond the last row.
  void write(uint64_t start, size_t count, int64_t* out) const;
};

}  // namespace krill::loading
