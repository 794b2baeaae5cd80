#include "loading/row_order.hpp"

#include <algorithm>
#include <stdexcept>

#include "loading/permutation.hpp"

namespace krill::loading {
namespace {

constexpr uint64_t kMostRows = uint64_t{1} << 62;
// The last part of the keys, so that blocks and windows are permuted independently.
constexpr uint64_t kBlocks = 0;
constexpr uint64_t kWindows = 1;

// Rows in the order of their permuted blocks.
class BlockOrder {
 public:
  BlockOrder(const RowOrder& order, std::vector<uint64_t> key)
      : block_rows_(order.block_rows),
        missing_((order.block_rows - order.rows % order.block_rows) % order.block_rows),
        blocks_((order.rows + order.block_rows - 1) / order.block_rows, key.data(), key.size()),
        short_end_((blocks_.inverse((order.rows - 1) / order.block_rows) + 1) * block_rows_ - missing_) {}

  // The last block of the dataset may be short: what comes after it moves up by what it lacks.
  uint64_t operator()(uint64_t place) const {
    if (place >= short_end_) place += missing_;
    return blocks_(place / block_rows_) * block_rows_ + place % block_rows_;
  }

 private:
  uint64_t block_rows_;
  uint64_t missing_;
  Permutation blocks_;
  uint64_t short_end_;  // the first place after the short block
};

std::vector<uint64_t> with(std::vector<uint64_t> key, std::initializer_list<uint64_t> parts) {
  key.insert(key.end(), parts);
  return key;
}

}  // namespace

void RowOrder::write(uint64_t start, size_t count, int64_t* out) const {
  if (block_rows == 0 || window == 0 || block_rows > kMostRows || window > kMostRows || rows > kMostRows)
    throw std::invalid_argument("rows, blocks and windows must be positive and below 2^62");
  if (start > rows || count > rows - start) throw std::invalid_argument("there are not so many rows");
  if (count == 0) return;
  const BlockOrder blocks(*this, with(key, {kBlocks}));
  const uint64_t end = start + count;
  const uint64_t windows = std::max<uint64_t>(1, rows / window);
  for (uint64_t place = start; place < end;) {
    const uint64_t number = std::min(place / window, windows - 1);
    const uint64_t first = number * window;
    const uint64_t in_window = number == windows - 1 ? rows - first : window;
    const std::vector<uint64_t> window_key = with(key, {kWindows, number});
    const Permutation inside(in_window, window_key.data(), window_key.size());
    for (const uint64_t last = std::min(end, first + in_window); place < last; ++place)
      *out++ = static_cast<int64_t>(blocks(first + inside(place - first)));
  }
}

}  // namespace krill::loading
