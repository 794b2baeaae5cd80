// Contractions and abbreviations: chunks whose words come from a list. Defined in word_traits.py.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace krill::quality {

constexpr size_t kLongestContraction = 16;  // bytes

struct Contraction {
  char text[kLongestContraction + 1];
  uint8_t words[3];  // bytes of each; 0 where there is none
};

extern const Contraction kContractions[];
extern const size_t kContractionCount;

class ContractionTable {
 public:
  ContractionTable();

  // The list's entry for a chunk of at least one byte, or null.
  const Contraction* find(const uint8_t* text, size_t size) const {
    // Most words are no contraction: their first and last letter and their length together say so.
    if (size > kLongestContraction || (sizes_[outline(text, size)] >> size & 1) == 0) return nullptr;
    return look_up(text, size);
  }

 private:
  static size_t outline(const uint8_t* text, size_t size) {
    return size_t{text[0] & 31u} << 5 | (text[size - 1] & 31u);
  }
  const Contraction* look_up(const uint8_t* text, size_t size) const;

  static constexpr size_t kSlots = 4096;
  std::array<uint32_t, 1024> sizes_{};    // by outline: a bit for each size that occurs
  std::array<uint16_t, kSlots> slots_{};  // number + 1
};

extern const ContractionTable kContractionTable;

}  // namespace krill::quality
