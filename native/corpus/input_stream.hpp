// The order of calls that both readers share: feeds that continue each other, then one finish; a UTF-8 byte
// order mark at the file's beginning is skipped, also when it is split between feeds. After a fault nothing
// more is read. `base` is added to all offsets of a file, so that offsets of several files stay distinct.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>

namespace krill::corpus {

class InputStream {
 public:
  explicit InputStream(uint64_t base = 0) : base_(base) {}

  // Calls consume(data, size, offset) with what follows the byte order mark.
  template <class Consume>
  void feed(const uint8_t* data, size_t size, uint64_t offset, Consume&& consume) {
    check_open();
    if (started_ && offset != next_) throw std::invalid_argument("a feed must continue the previous one");
    if (size > std::numeric_limits<uint64_t>::max() - offset) throw std::invalid_argument("offset too large");
    if (!started_) mark_ = offset == base_ ? Mark::kPossible : Mark::kDecided;
    started_ = true;
    next_ = offset + size;
    usable_ = false;  // until all is consumed without a fault
    if (mark_ == Mark::kPossible) {
      const size_t skipped = match_mark(data, size);
      data += skipped;
      size -= skipped;
      offset += skipped;
      if (mark_ == Mark::kPossible && size > 0) release_mark(consume);
    }
    if (size > 0) consume(data, size, offset);
    usable_ = true;
  }

  // Afterwards end() is the offset after the last byte.
  template <class Consume>
  void finish(Consume&& consume) {
    check_open();
    usable_ = false;
    if (mark_ == Mark::kPossible) release_mark(consume);
  }

  uint64_t end() const { return next_; }
  bool holds_bytes() const { return mark_ == Mark::kPossible && matched_ > 0; }

 private:
  enum class Mark { kPossible, kDecided };
  static constexpr uint8_t kMark[3] = {0xEF, 0xBB, 0xBF};

  void check_open() const {
    if (!usable_) throw std::logic_error("the reader has finished or failed; make a new one");
  }

  size_t match_mark(const uint8_t* data, size_t size) {
    size_t skipped = 0;
    while (skipped < size && matched_ < sizeof(kMark) && data[skipped] == kMark[matched_]) {
      ++skipped;
      ++matched_;
    }
    if (matched_ == sizeof(kMark)) mark_ = Mark::kDecided;
    return skipped;
  }

  // Not a byte order mark after all: the bytes held back are content.
  template <class Consume>
  void release_mark(Consume&& consume) {
    mark_ = Mark::kDecided;
    if (matched_ > 0) consume(kMark, matched_, base_);
  }

  uint64_t base_;
  uint64_t next_ = 0;
  size_t matched_ = 0;
  Mark mark_ = Mark::kDecided;
  bool started_ = false;
  bool usable_ = true;
};

}  // namespace krill::corpus
