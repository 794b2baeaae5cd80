// Ids on their way out: an array that grows as text is encoded, and is handed over whole.
//
// How many ids a text has is known only in the end, and room for the most that it could have would be touched
// for nothing: clearing such pages took a fifth of the time of encoding. So room is made for a few words at a
// time, and blocks come from the heap, where they are used again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

namespace krill {

template <class Id>
class GrowingIds {
 public:
  // Room for about `expected` ids to begin with.
  explicit GrowingIds(std::size_t expected) { grow(std::max<std::size_t>(expected, 1)); }

  // Where the next ids go, with room for `count` of them.
  Id* room(std::size_t count) {
    if (capacity_ - size_ < count) [[unlikely]]
      grow(std::max(size_ + count, capacity_ + capacity_ / 2));
    return data_.get() + size_;
  }
  // Ids were written up to here.
  void written(const Id* end) { size_ = static_cast<std::size_t>(end - data_.get()); }
  void append(Id id) {
    *room(1) = id;
    ++size_;
  }

  const Id* data() const { return data_.get(); }
  std::size_t size() const { return size_; }

  // Without the room that is left; the caller frees it with std::free.
  Id* release() {
    grow(std::max<std::size_t>(size_, 1));
    return data_.release();
  }

 private:
  struct Free {
    void operator()(Id* ids) const { std::free(ids); }
  };

  void grow(std::size_t capacity) {
    if (capacity > static_cast<std::size_t>(PTRDIFF_MAX) / sizeof(Id)) throw std::bad_alloc();
    void* moved = std::realloc(data_.get(), capacity * sizeof(Id));
    if (moved == nullptr) throw std::bad_alloc();
    (void)data_.release();
    data_.reset(static_cast<Id*>(moved));
    capacity_ = capacity;
  }

  std::unique_ptr<Id[], Free> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace krill
