// Code points of UTF-8, read without trust in the text: any bytes are some sequence of characters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "growing_buffer.hpp"

namespace krill::normalize {

// What stands for bytes that are no character; tables have a page for it, which says nothing.
constexpr uint32_t kNoPoint = 0x110000;
constexpr uint32_t kPage = 64;
constexpr size_t kPageCount = kNoPoint / kPage + 1;

struct Point {
  uint32_t value;
  uint32_t length;
};

// The character at `at`, which is below `size`. Well-formed text gives its code points; in other text a lead
// byte takes the bytes after it for its own, and what remains are characters of one byte.
inline Point point_at(const uint8_t* text, size_t size, size_t at) {
  const uint8_t* p = text + at;
  const size_t room = size - at;
  const uint32_t lead = p[0];
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xc0 || room < 2) return {kNoPoint, 1};
  if (lead < 0xe0) return {(lead & 0x1f) << 6 | (p[1] & 0x3fu), 2};
  if (room < 3) return {kNoPoint, 1};
  if (lead < 0xf0) return {(lead & 0x0f) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu), 3};
  if (room < 4) return {kNoPoint, 1};
  const uint32_t value = (lead & 0x07) << 18 | (p[1] & 0x3fu) << 12 | (p[2] & 0x3fu) << 6 | (p[3] & 0x3fu);
  return {std::min(value, kNoPoint), 4};
}

// Writes a code point and returns its end; there is room for four bytes.
inline uint8_t* write_point(uint8_t* out, uint32_t point) {
  const auto low = [&](uint32_t shift) { return static_cast<uint8_t>(0x80 | (point >> shift & 0x3f)); };
  if (point < 0x80) {
    *out++ = static_cast<uint8_t>(point);
  } else if (point < 0x800) {
    *out++ = static_cast<uint8_t>(0xc0 | point >> 6);
    *out++ = low(0);
  } else if (point < 0x10000) {
    *out++ = static_cast<uint8_t>(0xe0 | point >> 12);
    *out++ = low(6);
    *out++ = low(0);
  } else {
    *out++ = static_cast<uint8_t>(0xf0 | point >> 18);
    *out++ = low(12);
    *out++ = low(6);
    *out++ = low(0);
  }
  return out;
}

// Which bytes and pages have no character that matters to a step, so that stretches of them can be passed
// over.
class PlainBytes {
 public:
  PlainBytes() = default;
  // `matters(point)` is asked about all code points of two and three bytes; those of four may always matter.
  template <class Matters>
  explicit PlainBytes(Matters matters) {
    for (uint32_t point = 0; point < 0x10000; ++point) {
      if (matters(point)) page_matters_[point / kPage] = 1;
    }
    for (uint32_t byte = 0; byte < 0x80; ++byte) {
      byte_matters_[byte] = matters(byte);
      ascii_matters_ = ascii_matters_ || byte_matters_[byte] != 0;
    }
    for (uint32_t byte = 0xc0; byte < 256; ++byte) byte_matters_[byte] = byte < 0xc2 || byte >= 0xf0;
    for (uint32_t byte = 0xc2; byte < 0xe0; ++byte) byte_matters_[byte] = page_matters_[byte & 0x1f];
    for (uint32_t page = 0; page < kPages; ++page) byte_matters_[0xe0 | page >> 6] |= page_matters_[page];
  }

  // The end of as many blocks of plain bytes as follow each other. A byte is plain if it continues a
  // character or begins only characters that don't matter; sixteen are looked at without a branch, or
  // thirty-two of ASCII.
  size_t blocks(const uint8_t* text, size_t size, size_t at) const {
    for (;;) {
      while (!ascii_matters_ && size - at >= 2 * kBlock && is_ascii(text + at)) at += 2 * kBlock;
      if (size - at < kBlock || !is_plain(text + at)) return at;
      at += kBlock;
    }
  }

  // How long the character at `at` is if it is known not to matter, or 0. At least three bytes are there.
  size_t plain_length(const uint8_t* text, size_t at) const {
    const uint32_t lead = text[at];
    if (lead < 0x80) return byte_matters_[lead] != 0 ? 0 : 1;
    if (lead < 0xe0) return page_matters_[lead & 0x1f] != 0 || lead < 0xc0 ? 0 : 2;
    if (lead < 0xf0) return page_matters_[(lead & 0x0f) << 6 | (text[at + 1] & 0x3fu)] != 0 ? 0 : 3;
    return 0;
  }

  static constexpr size_t kBlock = 16;

 private:
  static constexpr uint32_t kPages = 0x10000 / kPage;

  static bool is_ascii(const uint8_t* p) {
    uint64_t words[4];
    std::memcpy(words, p, sizeof words);
    return ((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u) == 0;
  }

  bool is_plain(const uint8_t* p) const {
    uint8_t any = 0;
    for (size_t i = 0; i < kBlock; ++i) any |= byte_matters_[p[i]];
    return any == 0;
  }

  uint8_t byte_matters_[256] = {};
  uint8_t page_matters_[kPages] = {};
  bool ascii_matters_ = false;
};

// When blocks are tried: the longer there were none, the more seldom.
class BlockSteps {
 public:
  explicit BlockSteps(size_t at) : next_look_(at) {}

  bool due(size_t at) const { return at >= next_look_; }

  // The beginning of the last character of the plain blocks at `at`, where a character begins, or `at`. That
  // one may go on behind the blocks, and may be of interest to what comes after it.
  size_t pass(const PlainBytes& plain, const uint8_t* text, size_t size, size_t at) {
    const size_t end = plain.blocks(text, size, at);
    if (end == at) {
      gap_ = std::min(2 * gap_, kLargestGap);
    } else {
      gap_ = PlainBytes::kBlock;
      size_t last = end - 1;
      while (last > at && end - last < 4 && (text[last] & 0xc0) == 0x80) --last;
      at = last;
    }
    next_look_ = at + gap_;
    return at;
  }

 private:
  static constexpr size_t kLargestGap = 32;

  size_t next_look_;
  size_t gap_ = PlainBytes::kBlock;
};

// Goes through a text from one character that may matter to the next.
class PlainScan {
 public:
  static constexpr size_t kNone = ~size_t{0};

  PlainScan(const PlainBytes& plain, const uint8_t* text, size_t size)
      : plain_(plain), text_(text), size_(size), steps_(0) {}

  // Finds the next character that may matter, from `at()` on; all that do are found, and others, too.
  bool find() {
    while (at_ < size_) {
      if (steps_.due(at_)) at_ = steps_.pass(plain_, text_, size_, at_);
      const size_t length = size_ - at_ >= 3 ? plain_.plain_length(text_, at_) : 0;
      if (length == 0) return true;
      pass(length);
    }
    return false;
  }

  size_t at() const { return at_; }
  // Where the plain character right before `at()` begins, or kNone if none was passed.
  size_t before() const { return before_; }

  // Goes on behind the character at `at()`, which turned out to be plain.
  void pass(size_t length) {
    before_ = at_;
    at_ += length;
  }

  // Goes on from `at`, where a character begins; there is none before it.
  void go_on(size_t at) {
    at_ = at;
    before_ = kNone;
  }

 private:
  const PlainBytes& plain_;
  const uint8_t* text_;
  size_t size_;
  BlockSteps steps_;
  size_t at_ = 0;
  size_t before_ = kNone;
};

// Calls `work(at, point)` for every character that may matter, until it returns false.
template <class Work>
void visit(const PlainBytes& plain, const uint8_t* text, size_t size, Work&& work) {
  for (PlainScan scan(plain, text, size); scan.find();) {
    const Point point = point_at(text, size, scan.at());
    if (!work(scan.at(), point)) return;
    scan.go_on(scan.at() + point.length);
  }
}

}  // namespace krill::normalize
