// Bytes that steps over bytes do not cut apart, so that most pieces need not be read by them.
//
// In: bytes. Out: where the first other one is. Held in memory: 256 bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "regex/symbols.hpp"

namespace krill::regex {

struct ByteSet {
  std::array<uint8_t, 256> others{};  // 1 for a byte that is not in the set
  bool empty = true;

  // The place of the first other byte from `at` on, or `size`.
  size_t end_of(const uint8_t* text, size_t size, size_t at) const {
    while (at < size && others[text[at]] == 0) ++at;
    return at;
  }

  void intersect(const ByteSet& other) {
    for (size_t byte = 0; byte < others.size(); ++byte) others[byte] |= other.others[byte];
  }

  // The bytes with a symbol.
  static ByteSet of(const Symbols& symbols, uint8_t symbol) {
    ByteSet set;
    set.empty = false;
    for (size_t value = 0; value < set.others.size(); ++value) {
      const auto byte = static_cast<uint8_t>(value);
      size_t length = 0;
      set.others[value] = symbols.at(&byte, 1, 0, length) != symbol;
    }
    return set;
  }
};

}  // namespace krill::regex
