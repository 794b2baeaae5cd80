// The normalization forms: the library's tables of decompositions, combining classes and compositions.
//
// The words of kForm have, for each code point, the rank of its combining class (0 for class 0) and what the
// scan for stretches that change has to know: see generate_tables.py, which asks the library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "normalize/points.hpp"

namespace krill::normalize {

constexpr uint32_t kRank = 63;
constexpr uint32_t kDecomposesD = 64;    // has a canonical decomposition, Hangul's included
constexpr uint32_t kDecomposesKD = 128;  // has a canonical or compatible one
constexpr uint32_t kUnsettledC = 256;    // is changed by NFC, or may join a character before it
constexpr uint32_t kUnsettledKC = 512;   // the same for NFKC
constexpr uint32_t kInsideC = 1024;      // what comes before it may matter to NFC
constexpr uint32_t kInsideKC = 2048;     // to NFKC
constexpr uint32_t kInsideD = 4096;      // to NFD
constexpr uint32_t kInsideKD = 8192;     // to NFKD

extern const uint8_t kFormPageOf[kPageCount];
extern const uint16_t kFormPages[];
extern const uint8_t kCanonicalPageOf[kPageCount];
extern const uint16_t kCanonicalPages[];
extern const uint8_t kCompatiblePageOf[kPageCount];
extern const uint16_t kCompatiblePages[];
// At the place that the tables before name: how many code points a decomposition has, then those.
extern const uint32_t kDecompositions[];
// First, second, and what they become, for all pairs but Hangul's.
extern const size_t kCompositionCount;
extern const uint32_t kCompositions[];

inline uint32_t form_word(uint32_t point) {
  return kFormPages[kFormPageOf[point / kPage] * kPage + point % kPage];
}

}  // namespace krill::normalize
