// Scans of 16 bytes at a time: SSE2 on x86-64, NEON on aarch64 (both are the baseline there), plain C++
// elsewhere.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

namespace krill::text {

// Which of 16 bytes match; the first bytes of memory are the lowest bits.
class Matches {
 public:
  explicit Matches(uint64_t bits) : bits_(bits) {}
  bool any() const { return bits_ != 0; }
  size_t first() const { return static_cast<size_t>(std::countr_zero(bits_)) / kBitsPerByte; }
  void drop_first() { bits_ &= ~(((uint64_t{1} << kBitsPerByte) - 1) << (first() * kBitsPerByte)); }

#if defined(__aarch64__) && !defined(__SSE2__)
  static constexpr size_t kBitsPerByte = 4;
#else
  static constexpr size_t kBitsPerByte = 1;
#endif

 private:
  uint64_t bits_;
};

#if defined(__SSE2__)

class Bytes16 {
 public:
  static constexpr size_t kSize = 16;
  static Bytes16 load(const uint8_t* p) { return {_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))}; }
  Bytes16 equal(uint8_t byte) const { return {_mm_cmpeq_epi8(v, _mm_set1_epi8(static_cast<char>(byte)))}; }
  Bytes16 at_most(uint8_t byte) const {
    return {_mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(static_cast<char>(byte))), v)};
  }
  Bytes16 operator|(Bytes16 other) const { return {_mm_or_si128(v, other.v)}; }
  Bytes16 operator&(Bytes16 other) const { return {_mm_and_si128(v, other.v)}; }
  Matches matches() const {
    return Matches(static_cast<uint64_t>(static_cast<uint32_t>(_mm_movemask_epi8(v))));
  }

  __m128i v;
};

#elif defined(__aarch64__)

class Bytes16 {
 public:
  static constexpr size_t kSize = 16;
  static Bytes16 load(const uint8_t* p) { return {vld1q_u8(p)}; }
  Bytes16 equal(uint8_t byte) const { return {vceqq_u8(v, vdupq_n_u8(byte))}; }
  Bytes16 at_most(uint8_t byte) const { return {vcleq_u8(v, vdupq_n_u8(byte))}; }
  Bytes16 operator|(Bytes16 other) const { return {vorrq_u8(v, other.v)}; }
  Bytes16 operator&(Bytes16 other) const { return {vandq_u8(v, other.v)}; }
  Matches matches() const {
    // NEON has no movemask: narrowing by four bits leaves one nibble for each byte.
    const uint8x8_t nibbles = vshrn_n_u16(vreinterpretq_u16_u8(v), 4);
    return Matches(vget_lane_u64(vreinterpret_u64_u8(nibbles), 0));
  }

  uint8x16_t v;
};

#else

class Bytes16 {
 public:
  static constexpr size_t kSize = 16;
  static Bytes16 load(const uint8_t* p) {
    Bytes16 out;
    std::memcpy(out.v, p, 16);
    return out;
  }
  Bytes16 equal(uint8_t byte) const {
    Bytes16 out;
    for (int i = 0; i < 16; ++i) out.v[i] = v[i] == byte ? 0xFF : 0;
    return out;
  }
  Bytes16 at_most(uint8_t byte) const {
    Bytes16 out;
    for (int i = 0; i < 16; ++i) out.v[i] = v[i] <= byte ? 0xFF : 0;
    return out;
  }
  Bytes16 operator|(Bytes16 other) const {
    for (int i = 0; i < 16; ++i) other.v[i] |= v[i];
    return other;
  }
  Bytes16 operator&(Bytes16 other) const {
    for (int i = 0; i < 16; ++i) other.v[i] &= v[i];
    return other;
  }
  Matches matches() const {
    uint64_t bits = 0;
    for (int i = 0; i < 16; ++i) bits |= static_cast<uint64_t>(v[i] & 1) << i;
    return Matches(bits);
  }

  uint8_t v[16];
};

#endif

// The first byte that a JSON string can't hold as it is: a quote, a backslash or a control character.
inline const uint8_t* find_string_stop(const uint8_t* p, const uint8_t* end) {
  for (; end - p >= 16; p += 16) {
    const Bytes16 block = Bytes16::load(p);
    const Matches stops = (block.equal('"') | block.equal('\\') | block.at_most(0x1F)).matches();
    if (stops.any()) return p + stops.first();
  }
  while (p < end && *p != '"' && *p != '\\' && *p > 0x1F) ++p;
  return p;
}

// The first occurrence of `needle` that lies wholly in [p, end), or `end`. The needle is not empty.
// Candidates are found by the needle's first and last byte together, which real separators rarely share with
// text.
inline const uint8_t* find_bytes(const uint8_t* p, const uint8_t* end, const uint8_t* needle, size_t size) {
  const uint8_t first = needle[0];
  const uint8_t last = needle[size - 1];
  const auto room = [&] { return static_cast<size_t>(end - p); };
  for (; room() >= size - 1 + 16; p += 16) {
    Matches candidates = (Bytes16::load(p).equal(first) & Bytes16::load(p + size - 1).equal(last)).matches();
    for (; candidates.any(); candidates.drop_first()) {
      const uint8_t* found = p + candidates.first();
      if (std::memcmp(found, needle, size) == 0) return found;
    }
  }
  for (; room() >= size; ++p) {
    if (*p == first && std::memcmp(p, needle, size) == 0) return p;
  }
  return end;
}

// The last occurrence of `byte` in [begin, end), or null.
inline const uint8_t* find_last(const uint8_t* begin, const uint8_t* end, uint8_t byte) {
  while (end - begin >= 16 && !Bytes16::load(end - 16).equal(byte).matches().any()) end -= 16;
  while (end != begin) {
    if (*--end == byte) return end;
  }
  return nullptr;
}

}  // namespace krill::text
