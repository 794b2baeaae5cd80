// Where a pair occurs: a rising list of positions, none of them 0, in few bytes.
//
// Each is written as its distance from the one before, in groups of seven bits with the lowest first; the
// lowest bit of all says that it counts blocks, which lie at even distances in a long word. So a frequent
// pair of text without spaces takes one byte for each place. A byte 0 ends the list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace krill::bpe {

constexpr size_t kPostingsEnd = 1;  // bytes

template <uint32_t kBlock>
uint64_t posting_code(uint32_t distance) {
  return distance % kBlock == 0 ? uint64_t{distance / kBlock} << 1 | 1 : uint64_t{distance} << 1;
}

template <uint32_t kBlock>
uint32_t posting_bytes(uint32_t distance) {
  uint32_t bytes = 1;
  for (uint64_t code = posting_code<kBlock>(distance); code >= 0x80; code >>= 7) ++bytes;
  return bytes;
}

// Returns the place behind what was written.
template <uint32_t kBlock>
uint8_t* write_posting(uint8_t* out, uint32_t distance) {
  uint64_t code = posting_code<kBlock>(distance);
  for (; code >= 0x80; code >>= 7) *out++ = static_cast<uint8_t>(code | 0x80);
  *out++ = static_cast<uint8_t>(code);
  return out;
}

// With its end. No byte of a position is 0.
inline size_t postings_size(const uint8_t* list) {
  return std::strlen(reinterpret_cast<const char*>(list)) + kPostingsEnd;
}

template <uint32_t kBlock>
class PostingReader {
 public:
  explicit PostingReader(const uint8_t* in) : in_(in) {}

  // The next position; 0 at the end of the list, however often.
  uint32_t next() {
    uint64_t code = *in_;
    if (code == 0) return 0;
    ++in_;
    if (code >= 0x80) {
      code &= 0x7f;
      unsigned shift = 7;
      for (; *in_ >= 0x80; shift += 7) code |= uint64_t{*in_++ & 0x7fu} << shift;
      code |= uint64_t{*in_++} << shift;
    }
    position_ += static_cast<uint32_t>(code & 1 ? (code >> 1) * kBlock : code >> 1);
    return position_;
  }

 private:
  const uint8_t* in_;
  uint32_t position_ = 0;
};

}  // namespace krill::bpe
