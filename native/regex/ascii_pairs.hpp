// Steps over two ASCII characters at once, for automata that cut text: half as many look-ups that wait for
// each other.
//
// In: the steps of an automaton for single symbols. Out: those for pairs. Held in memory: 1 KB for each
// state.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "regex/symbols.hpp"

namespace krill::regex {

// How steps of automata that cut are written: row << kCutFlags | flags.
constexpr uint32_t kCut = 1;       // before the symbol
constexpr uint32_t kSpecial = 2;   // where to cut is to be found out
constexpr uint32_t kOneBack = 4;   // beside kSpecial: one symbol before
constexpr uint32_t kAfterGap = 4;  // beside kCut: what lies before it is no match
constexpr unsigned kCutFlags = 3;  // bits

class AsciiPairs {
 public:
  // `cuts` has `1 << stride_bits` entries for each state. Stays empty if ASCII has more than 16 symbols.
  void build(const Symbols& symbols, const std::vector<uint32_t>& cuts, unsigned stride_bits);

  bool empty() const { return entries_.empty(); }
  size_t bytes() const { return entries_.size() * sizeof(uint32_t); }

  // From `at` and `row` on, as long as there are two ASCII characters and no special step. Before each step
  // it calls write(place, row, entry), with the flags below in `entry`, and stops if that returns false.
  template <class Write>
  void run(const uint8_t* text, size_t size, size_t& at, uint32_t& row, Write&& write) const {
    const uint32_t* const entries = entries_.data();
    size_t place = at;
    // Of the state's entries: what one step says is where the next one looks, without a shift between.
    uint32_t offset = row << shift_;
    while (size - place >= 2) {
      const uint8_t first = text[place];
      const uint8_t second = text[place + 1];
      if ((first | second) >= 0x80) break;
      const uint32_t pair = uint32_t{nibbles_[first]} << 4 | nibbles_[second];
      const uint32_t entry = entries[offset + pair];
      if (entry & kPairSpecial) break;
      if (!write(place, offset >> shift_, entry)) break;
      offset = entry >> kPairFlags;
      place += 2;
    }
    at = place;
    row = offset >> shift_;
  }

  static constexpr uint32_t kFirstCut = 1;
  static constexpr uint32_t kSecondCut = 2;
  static constexpr uint32_t kFirstAfterGap = 4;
  static constexpr uint32_t kSecondAfterGap = 8;

 private:
  static constexpr uint32_t kPairSpecial = 16;
  static constexpr unsigned kPairFlags = 5;

  std::array<uint8_t, 128> nibbles_{};
  unsigned shift_ = 0;
  std::vector<uint32_t> entries_;
};

}  // namespace krill::regex
