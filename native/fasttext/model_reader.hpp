// Reads a model file from its beginning to its end, and never believes a size that the file states: what is
// to be read must be there before memory is taken for it.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "buffer.hpp"
#include "check.hpp"

namespace krill::fasttext {

// Where the bytes come from.
class Source {
 public:
  virtual ~Source() = default;
  // Exactly `size` bytes, or throws.
  virtual void read(void* out, size_t size) = 0;
};

// A file that is open; the descriptor stays the caller's.
class FileSource final : public Source {
 public:
  explicit FileSource(int descriptor) : descriptor_(descriptor) {}
  void read(void* out, size_t size) override;

 private:
  int descriptor_;
};

class ModelReader {
 public:
  // `size` is how many bytes the source has. Throws std::invalid_argument where they don't make a model.
  ModelReader(Source& source, size_t size) : source_(source), unread_(size) {}

  size_t left() const { return unread_ + (end_ - at_); }
  // Throws unless `count` things of `bytes` bytes each are left.
  void expect_left(uint64_t count, size_t bytes) const {
    expect(count <= left() / bytes, "it is cut short, or a size in it is wrong");
  }

  template <class T>
  T number() {
    T value;
    read(&value, sizeof value);
    return value;
  }
  bool flag() {
    const auto byte = number<uint8_t>();
    expect(byte <= 1, "a flag in it is neither 0 nor 1");
    return byte == 1;
  }
  // Bytes up to the next zero, which is left out.
  template <class Text>
  void append_text(Text& text) {
    while (true) {
      if (at_ == end_) fill();
      const uint8_t* const begin = buffer_.data() + at_;
      const void* const zero = std::memchr(begin, 0, end_ - at_);
      const size_t size = zero ? static_cast<size_t>(static_cast<const uint8_t*>(zero) - begin) : end_ - at_;
      text.append(reinterpret_cast<const char*>(begin), size);
      at_ += size;
      if (zero == nullptr) continue;
      ++at_;
      return;
    }
  }
  Buffer<uint8_t> bytes(uint64_t count) {
    expect_left(count, 1);
    Buffer<uint8_t> found(count);
    read(found.data(), found.size());
    return found;
  }
  Buffer<float> floats(uint64_t count);

  // Of all that was read, in pieces as it was.
  uint64_t fingerprint() const { return fingerprint_; }

 private:
  void read(void* out, size_t size);
  void fill();
  void take(void* out, size_t size);

  Source& source_;
  size_t unread_;
  std::array<uint8_t, size_t{1} << 16> buffer_;
  size_t at_ = 0;
  size_t end_ = 0;
  uint64_t fingerprint_ = 0;
};

}  // namespace krill::fasttext
