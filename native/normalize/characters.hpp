// What single characters are to the library's normalizers: see generate_tables.py, which asks them.
#pragma once

#include <cstdint>

#include "normalize/points.hpp"

namespace krill::normalize {

constexpr uint32_t kRemovedByCleaning = 1;  // BertNormalizer's clean_text: controls and what is not assigned
constexpr uint32_t kSpaceByCleaning = 2;    // whitespace, which becomes a space
constexpr uint32_t kNonspacing = 4;         // BertNormalizer's strip_accents
constexpr uint32_t kCombining = 8;          // StripAccents
constexpr uint32_t kWhitespace = 16;        // Strip

extern const uint8_t kTraitPageOf[kPageCount];
extern const uint8_t kTraitPages[];
// What is added to a code point to make it lower case; U+0130, which becomes two, has 0.
extern const uint8_t kLowerPageOf[kPageCount];
extern const int32_t kLowerPages[];
// See graphemes.hpp.
extern const uint8_t kGraphemePageOf[kPageCount];
extern const uint8_t kGraphemePages[];

inline uint32_t traits_of(uint32_t point) {
  return kTraitPages[kTraitPageOf[point / kPage] * kPage + point % kPage];
}

inline int32_t lower_distance(uint32_t point) {
  return kLowerPages[kLowerPageOf[point / kPage] * kPage + point % kPage];
}

}  // namespace krill::normalize
