// The shuffled order of a dataset's rows, any stretch of it without what precedes. Holds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace krill {

// Rows come in blocks that lie together on disk. The blocks are permuted; the rows, in the blocks' new order,
// are cut into windows, of which the last takes what is left over; and inside each window rows are permuted.
struct RowOrder {
  std::uint64_t rows;
  std::uint64_t block_rows;
  std::uint64_t window;
  std::vector<std::uint64_t> key;

  // The rows at places `start` to `start + count` of the order. Throws std::invalid_argument for sizes of 0
  // or above 2^62, and for places beyond the last row.
  void write(std::uint64_t start, std::size_t count, std::int64_t* out) const;
};

}  // namespace krill
