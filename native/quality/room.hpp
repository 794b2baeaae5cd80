// Working memory that is used again for one document after another.
#pragma once

#include <cstddef>
#include <memory>

namespace krill::quality {

// An array of exactly the greatest size that was asked for so far. What it held is lost when it is asked
// again.
template <class T>
class Room {
 public:
  // Space for `size` values, which are not set.
  T* take(std::size_t size) {
    if (size > size_) {
      values_.reset();  // first, so that there are never two
      values_ = std::make_unique_for_overwrite<T[]>(size);
      size_ = size;
    }
    return values_.get();
  }

 private:
  std::unique_ptr<T[]> values_;
  std::size_t size_ = 0;
};

}  // namespace krill::quality
