// Tests on 64 bytes at once; a result has a bit for each byte, the first byte lowest. `ScanBlock` is SSE2 on
// x86-64 and NEON on aarch64, where they are the baseline, plain C++ elsewhere. `WideScanBlock` is AVX-512
// for machines that have it: the scan takes half the time. AVX2 was tried and left out: 15 % of the scan.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#include "processor.hpp"

namespace krill::text {

constexpr unsigned kScanBlock = 64;

// Writes `first` + the place of each bit, and returns how many.
inline size_t write_places(uint64_t bits, uint32_t first, uint32_t* places) {
  size_t count = 0;
  for (; bits != 0; bits &= bits - 1) places[count++] = first + static_cast<uint32_t>(std::countr_zero(bits));
  return count;
}

#if defined(__SSE2__)

class ScanBlock {
 public:
  static constexpr auto write_places = text::write_places;

  explicit ScanBlock(const uint8_t* text) {
    for (int i = 0; i < 4; ++i) parts_[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text) + i);
  }
  uint64_t wide() const {  // not ASCII
    return gather([](__m128i part) { return part; });
  }
  uint64_t equal(char value) const {
    const __m128i wanted = _mm_set1_epi8(value);
    return gather([=](__m128i part) { return _mm_cmpeq_epi8(part, wanted); });
  }
  uint64_t within(char first, char last) const {
    const __m128i low = _mm_set1_epi8(first);
    const __m128i span = _mm_set1_epi8(static_cast<char>(last - first));
    return gather([=](__m128i part) {
      const __m128i above = _mm_sub_epi8(part, low);
      return _mm_cmpeq_epi8(_mm_min_epu8(above, span), above);
    });
  }
  uint64_t letters() const {  // of ASCII, in either case
    const __m128i low = _mm_set1_epi8('a');
    const __m128i span = _mm_set1_epi8('z' - 'a');
    const __m128i case_bit = _mm_set1_epi8(0x20);
    return gather([=](__m128i part) {
      const __m128i above = _mm_sub_epi8(_mm_or_si128(part, case_bit), low);
      return _mm_cmpeq_epi8(_mm_min_epu8(above, span), above);
    });
  }

 private:
  template <class Test>
  uint64_t gather(Test test) const {
    uint64_t bits = 0;
    for (int i = 0; i < 4; ++i)
      bits |= uint64_t{static_cast<uint32_t>(_mm_movemask_epi8(test(parts_[i])))} << (16 * i);
    return bits;
  }

  __m128i parts_[4];
};

#elif defined(__aarch64__)

class ScanBlock {
 public:
  static constexpr auto write_places = text::write_places;

  explicit ScanBlock(const uint8_t* text) {
    for (int i = 0; i < 4; ++i) parts_[i] = vld1q_u8(text + 16 * i);
  }
  uint64_t wide() const {
    return gather([](uint8x16_t part) { return vcgeq_u8(part, vdupq_n_u8(0x80)); });
  }
  uint64_t equal(char value) const {
    const uint8x16_t wanted = vdupq_n_u8(static_cast<uint8_t>(value));
    return gather([=](uint8x16_t part) { return vceqq_u8(part, wanted); });
  }
  uint64_t within(char first, char last) const {
    const uint8x16_t low = vdupq_n_u8(static_cast<uint8_t>(first));
    const uint8x16_t span = vdupq_n_u8(static_cast<uint8_t>(last - first));
    return gather([=](uint8x16_t part) { return vcleq_u8(vsubq_u8(part, low), span); });
  }
  uint64_t letters() const {
    const uint8x16_t low = vdupq_n_u8('a');
    const uint8x16_t span = vdupq_n_u8('z' - 'a');
    const uint8x16_t case_bit = vdupq_n_u8(0x20);
    return gather([=](uint8x16_t part) { return vcleq_u8(vsubq_u8(vorrq_u8(part, case_bit), low), span); });
  }

 private:
  // NEON has no movemask: each byte keeps the bit of its place, and pairwise sums put eight of them into one.
  template <class Test>
  uint64_t gather(Test test) const {
    const uint8_t places[16] = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint8x16_t place = vld1q_u8(places);
    const uint8x16_t low = vpaddq_u8(vandq_u8(test(parts_[0]), place), vandq_u8(test(parts_[1]), place));
    const uint8x16_t high = vpaddq_u8(vandq_u8(test(parts_[2]), place), vandq_u8(test(parts_[3]), place));
    const uint8x16_t pairs = vpaddq_u8(low, high);
    return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(pairs, pairs)), 0);
  }

  uint8x16_t parts_[4];
};

#else

class ScanBlock {
 public:
  static constexpr auto write_places = text::write_places;

  explicit ScanBlock(const uint8_t* text) { std::memcpy(bytes_, text, kScanBlock); }
  uint64_t wide() const {
    return gather([](uint8_t byte) { return byte >= 0x80; });
  }
  uint64_t equal(char value) const {
    return gather([=](uint8_t byte) { return byte == static_cast<uint8_t>(value); });
  }
  uint64_t within(char first, char last) const {
    return gather([=](uint8_t byte) {
      return static_cast<uint8_t>(byte - first) <= static_cast<uint8_t>(last - first);
    });
  }
  uint64_t letters() const { return within('a', 'z') | within('A', 'Z'); }

 private:
  template <class Test>
  uint64_t gather(Test test) const {
    uint64_t bits = 0;
    for (unsigned i = 0; i < kScanBlock; ++i) bits |= uint64_t{test(bytes_[i])} << i;
    return bits;
  }

  uint8_t bytes_[kScanBlock];
};

#endif

#if defined(__x86_64__)

// For functions that are run only where `WideScanBlock::is_supported`.
#define KRILL_AVX512 [[gnu::target("avx512f,avx512bw,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")]]

class WideScanBlock {
 public:
  static bool is_supported() { return Processor::of_this_machine().avx512_bytes; }

  KRILL_AVX512 explicit WideScanBlock(const uint8_t* text) : bytes_(_mm512_loadu_si512(text)) {}
  KRILL_AVX512 uint64_t wide() const { return _mm512_movepi8_mask(bytes_); }
  KRILL_AVX512 uint64_t equal(char value) const {
    return _mm512_cmpeq_epi8_mask(bytes_, _mm512_set1_epi8(value));
  }
  KRILL_AVX512 uint64_t within(char first, char last) const {
    const __m512i above = _mm512_sub_epi8(bytes_, _mm512_set1_epi8(first));
    return _mm512_cmple_epu8_mask(above, _mm512_set1_epi8(static_cast<char>(last - first)));
  }
  KRILL_AVX512 uint64_t letters() const {
    const __m512i lower = _mm512_or_si512(bytes_, _mm512_set1_epi8(0x20));
    const __m512i above = _mm512_sub_epi8(lower, _mm512_set1_epi8('a'));
    return _mm512_cmple_epu8_mask(above, _mm512_set1_epi8('z' - 'a'));
  }
  // Writes up to all 64 places, those beyond the last bit's too: how many there are can't be predicted.
  KRILL_AVX512 static size_t write_places(uint64_t bits, uint32_t first, uint32_t* places) {
    const __m512i all =
        _mm512_set_epi8(63, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 47, 46, 45, 44, 43,
                        42, 41, 40, 39, 38, 37, 36, 35, 34, 33, 32, 31, 30, 29, 28, 27, 26, 25, 24, 23, 22,
                        21, 20, 19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    const __m512i found = _mm512_maskz_compress_epi8(bits, all);
    const __m512i before = _mm512_set1_epi32(static_cast<int>(first));
    const auto count = static_cast<size_t>(_mm_popcnt_u64(bits));
    store<0>(found, before, places);
    store<1>(found, before, places);
    if (count > 32) [[unlikely]] {
      store<2>(found, before, places);
      store<3>(found, before, places);
    }
    return count;
  }

 private:
  // One sixteen of four. Forms with a mask, though it is full: GCC 12 takes the others for uses of what is
  // not initialised.
  template <int kPart>
  KRILL_AVX512 static void store(const __m512i& found, const __m512i& before, uint32_t* places) {
    const __m128i part = _mm512_maskz_extracti32x4_epi32(static_cast<__mmask8>(0xff), found, kPart);
    const __m512i wide = _mm512_maskz_cvtepu8_epi32(static_cast<__mmask16>(0xffff), part);
    _mm512_storeu_si512(places + 16 * kPart, _mm512_add_epi32(wide, before));
  }

  __m512i bytes_;
};

#endif

}  // namespace krill::text
