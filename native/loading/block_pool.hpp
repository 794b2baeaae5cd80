// A pool of memory for batches: a block returns to the pool when its array is freed, and is reused.
//
// A fresh page costs more than filling it (see pages.hpp), and the system's allocator gives freed blocks of
// this size back. A block is never reused while its array lives. Holds at most `most_free` unused
// bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "buffer.hpp"

namespace krill::loading {

using Block = std::unique_ptr<Buffer<uint8_t>>;

class BlockPool {
 public:
  explicit BlockPool(size_t most_free) : most_free_(most_free) {
    free_.reserve(kMostBlocks + 1);  // so that `give` never allocates
  }

  // At least `size` bytes, less than twice that.
  Block take(size_t size) {
    // try_to_lock: in a forked child another thread may have held the lock, for ever.
    if (const std::unique_lock lock(mutex_, std::try_to_lock); lock) {
      const auto fitting = std::find_if(free_.rbegin(), free_.rend(), [&](const Block& block) {
        return block->size() >= size && block->size() / 2 <= size;
      });
      if (fitting != free_.rend()) {
        Block block = std::move(*fitting);
        free_.erase(std::next(fitting).base());
        free_bytes_ -= block->size();
        return block;
      }
    }
    return std::make_unique<Buffer<uint8_t>>(size);
  }

  void give(Block block) {
    const std::unique_lock lock(mutex_, std::try_to_lock);
    if (!lock || block->size() > most_free_) return;
    free_bytes_ += block->size();
    free_.push_back(std::move(block));
    while (free_bytes_ > most_free_ || free_.size() > kMostBlocks) {
      free_bytes_ -= free_.front()->size();
      free_.erase(free_.begin());
    }
  }

 private:
  static constexpr size_t kMostBlocks = 64;

  std::mutex mutex_;
  size_t most_free_;
  size_t free_bytes_ = 0;
  std::vector<Block> free_;  // the last returned comes last
};

// A block that returns itself to its pool.
class PooledBlock {
 public:
  PooledBlock(std::shared_ptr<BlockPool> pool, size_t size)
      : pool_(std::move(pool)), block_(pool_->take(size)), size_(size) {}
  PooledBlock(PooledBlock&&) = default;
  PooledBlock& operator=(PooledBlock&&) = delete;
  ~PooledBlock() {
    if (pool_) pool_->give(std::move(block_));
  }

  uint8_t* data() { return block_->data(); }
  size_t size() const { return size_; }

 private:
  std::shared_ptr<BlockPool> pool_;
  Block block_;
  size_t size_;
};

}  // namespace krill::loading
