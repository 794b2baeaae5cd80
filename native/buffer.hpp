// One allocation of fixed size for NumPy: reserved at an upper bound, trimmed once, handed over.
//
// A bound that is too high costs address space only: pages that are never written are never resident,
// and trimming gives them back without a copy.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "check.hpp"
#include "pages.hpp"

namespace krill {

template <class T>
class Buffer {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit Buffer(size_t size) : size_(size) {
    if (size > std::numeric_limits<size_t>::max() / 2 / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = size * sizeof(T);
    if (bytes >= Pages::kHuge) {
      pages_.emplace(bytes);
      data_ = static_cast<T*>(pages_->data());
    } else {
      heap_.reset(std::malloc(bytes == 0 ? 1 : bytes));
      data_ = static_cast<T*>(heap_.get());
    }
    if (data_ == nullptr) throw std::bad_alloc();
  }

  // All bytes 0; large ones are so from the start and stay untouched.
  static Buffer zeros(size_t size) {
    Buffer buffer(size);
    if (!buffer.pages_) std::memset(static_cast<void*>(buffer.data_), 0, size * sizeof(T));
    return buffer;
  }

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

  // Keeps the first `size` elements and gives the rest back.
  void trim(size_t size) {
    if (size >= size_) return;
    size_ = size;
    const size_t bytes = size == 0 ? 1 : size * sizeof(T);
    if (pages_) {
      pages_->trim(bytes);
    } else if (void* smaller = std::realloc(heap_.get(), bytes)) {
      (void)heap_.release();
      heap_.reset(smaller);
      data_ = static_cast<T*>(smaller);
    }
  }

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  std::optional<Pages> pages_;
  std::unique_ptr<void, Free> heap_;
  T* data_;
  size_t size_;
};

}  // namespace krill
