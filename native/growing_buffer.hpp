// The one growing array of the core: plain values, whose memory can be handed to NumPy as it is.
//
// Why not std::vector: growth goes through realloc (large blocks are moved by the kernel's page tables, not
// copied), new space is not zeroed, and spare room is at most half of what is needed. Small blocks come from
// the heap and are used again: when a fifth of the time of encoding went into clearing pages of a buffer that
// was reserved at its upper bound, it was replaced by this one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "check.hpp"
#include "pages.hpp"

namespace krill {

template <class T>
class GrowingBuffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  GrowingBuffer() = default;
  // Empty, with room for `capacity` values.
  explicit GrowingBuffer(size_t capacity) {
    if (capacity > kMaxSize) throw std::bad_alloc();
    reallocate(std::max<size_t>(capacity, 1));
  }
  // The same in huge pages where the system has them: for what is written once and handed over, since first
  // writes to ordinary pages take longer than what is written. As much as a huge page more may be resident.
  static GrowingBuffer large(size_t capacity) {
    GrowingBuffer buffer;
    buffer.in_huge_pages_ = true;
    if (capacity > kMaxSize) throw std::bad_alloc();
    buffer.reallocate(std::max<size_t>(capacity, 1));
    return buffer;
  }
  GrowingBuffer(GrowingBuffer&& other) noexcept { swap(other); }
  GrowingBuffer& operator=(GrowingBuffer&& other) noexcept {
    GrowingBuffer(std::move(other)).swap(*this);
    return *this;
  }
  GrowingBuffer(const GrowingBuffer&) = delete;
  GrowingBuffer& operator=(const GrowingBuffer&) = delete;
  ~GrowingBuffer() { std::free(data_); }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t index) {
    check_index(index, size_);
    return data_[index];
  }
  const T& operator[](size_t index) const {
    check_index(index, size_);
    return data_[index];
  }
  const T& back() const { return (*this)[size_ - 1]; }

  void push_back(T value) {
    make_room(1);
    data_[size_++] = value;
  }

  void append(const T* values, size_t count) {
    if (count == 0) return;
    make_room(count);
    std::memcpy(data_ + size_, values, count * sizeof(T));
    size_ += count;
  }

  void append_repeated(T value, size_t count) {
    if (count == 0) return;
    make_room(count);
    std::fill_n(data_ + size_, count, value);
    size_ += count;
  }

  // Where the next values go, with room for `count`: the caller writes them, then calls `set_end`.
  T* room(size_t count) {
    make_room(count);
    return data_ + size_;
  }
  void set_end(const T* end) {
    size_ = static_cast<size_t>(end - data_);
    check_index(size_, capacity_ + 1);
  }

  void truncate(size_t size) { size_ = std::min(size_, size); }

  // `size` values that are not set, in exactly as much memory as the largest call needed. What was there is
  // lost, and freed before more is allocated, so that there are never two blocks.
  std::span<T> resize_for_overwrite(size_t size) {
    if (size > capacity_) {
      std::free(release());
      *this = GrowingBuffer(size);
    }
    size_ = size;
    return {data_, size_};
  }

  // The caller frees it with std::free.
  T* release() {
    size_ = capacity_ = 0;
    return std::exchange(data_, nullptr);
  }

  // Gives spare room back; afterwards data() is never null, so that an empty buffer has an address too.
  void shrink_to_fit() {
    if (capacity_ != size_ || data_ == nullptr) reallocate(std::max<size_t>(size_, 1));
  }

 private:
  // Small, since a record of ten thousand keys has three buffers for each.
  static constexpr size_t kFirstCapacity = 64 / sizeof(T);
  static constexpr size_t kMaxSize = static_cast<size_t>(PTRDIFF_MAX) / sizeof(T);

  void swap(GrowingBuffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(in_huge_pages_, other.in_huge_pages_);
  }

  void make_room(size_t extra) {
    if (capacity_ - size_ < extra) [[unlikely]]
      grow(extra);
  }

  void grow(size_t extra) {
    if (extra > kMaxSize - size_) throw std::length_error("buffer larger than the address space");
    const size_t half_more = std::min(capacity_ + capacity_ / 2, kMaxSize);
    reallocate(std::max({size_ + extra, half_more, kFirstCapacity}));
  }

  void reallocate(size_t capacity) {
    void* moved = std::realloc(data_, capacity * sizeof(T));
    if (moved == nullptr) throw std::bad_alloc();
    data_ = static_cast<T*>(moved);
    capacity_ = capacity;
    if (in_huge_pages_) use_huge_pages(moved, capacity * sizeof(T));
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  bool in_huge_pages_ = false;
};

}  // namespace krill
