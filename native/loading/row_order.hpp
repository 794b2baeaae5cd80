// The shuffled order of a dataset's rows, any range of it without computing what precedes. Holds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace krill::loading {

// Rows come in blocks that are adjacent on disk. The blocks are permuted; the rows, in the blocks' new order,
// are cut into windows, of which the last takes the rest; and inside each window rows are permuted.
struct RowOrder {
  uint64_t rows;
  uint64_t block_rows;
  uint64_t window;
  std::vector<uint64_t> key;

  // The rows at positions `start` to `start + count` of the order. Throws std::invalid_argument for sizes of
  // 0 or above 2^62, and for positions beyond the last row.
  void write(uint64_t start, size_t count, int64_t* out) const;
};

}  // namespace krill::loading
