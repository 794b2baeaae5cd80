// Memory for large buffers straight from the system, in huge pages where the system has them.
//
// A fresh buffer is paid for when it is first written, with a fault for each page: 2.3 us for 4 KiB on the
// virtual machine where this was measured, so 1.8 GB/s at best, which is less than what our loops do. In
// pages of 2 MiB it was 11 to 20 GB/s. Unlike a cache of used buffers they hold nothing back: memory is
// returned when its buffer ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include <sys/mman.h>
#include <unistd.h>

namespace krill {

// Asks for huge pages where memory of malloc's is that large.
inline void use_huge_pages(void* memory, size_t size) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kHuge = uintptr_t{2} << 20;
  const auto address = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t begin = (address + kHuge - 1) & ~(kHuge - 1), end = (address + size) & ~(kHuge - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#else
  (void)memory, (void)size;
#endif
}

// A private anonymous mapping that begins where a huge page may.
class Pages {
 public:
  static constexpr size_t kHuge = size_t{2} << 20;

  // `size` is at most half of all addresses.
  explicit Pages(size_t size) : length_(mapped_length(size)) {
    // Mapped with room to spare, which goes back at once, so that the front can be aligned.
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    void* mapped = mmap(nullptr, length_ + kHuge, kAccess, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(mapped);
    const size_t before = round_up(address, kHuge) - address;
    data_ = static_cast<char*>(mapped) + before;
    if (before != 0) munmap(mapped, before);
    if (before != kHuge) munmap(data_ + length_, kHuge - before);
#ifdef MADV_HUGEPAGE
    madvise(data_, length_, MADV_HUGEPAGE);
#endif
  }
  Pages(Pages&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), length_(std::exchange(other.length_, 0)) {}
  Pages& operator=(Pages&&) = delete;
  ~Pages() { trim(0); }

  void* data() const { return data_; }

  // Gives back all whole pages after the first `size` bytes.
  void trim(size_t size) {
    const size_t keep = round_up(size, page_size());
    if (keep >= length_) return;
    munmap(data_ + keep, length_ - keep);
    length_ = keep;
  }

 private:
  static size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }
  static size_t page_size() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }

  // A huge page is resident as a whole, so the last one is made room for only if most of it will be used.
  static size_t mapped_length(size_t size) {
    const size_t huge = round_up(size, kHuge);
    return huge - size <= size / 8 ? huge : round_up(size, page_size());
  }

  char* data_ = nullptr;
  size_t length_ = 0;
};

}  // namespace krill
