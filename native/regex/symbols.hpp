// Symbols: the classes into which the sets of a pattern divide all characters, and where a text ends and
// begins.
//
// In: the sets of a pattern. Out: the symbol of any character. Held in memory: a table of pages, 10 to 80 KB.
#pragma once

#include <array>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "regex/code_set.hpp"

namespace krill::regex {

constexpr size_t kMostSymbols = 250;
using SymbolSet = std::bitset<256>;

class Symbols {
 public:
  // `sets` differ from each other. False if there are too many symbols.
  bool build(const std::vector<CodeSet>& sets);

  // Symbols that tell apart whatever any of `parts` does; writes for each part and symbol the part's symbol.
  // False if there are too many, or if only some of them read bytes.
  bool join(const std::vector<const Symbols*>& parts, std::vector<std::vector<uint8_t>>& part_symbols);

  // The same for texts of which each byte stands for a character: the code points of all bytes.
  Symbols over_bytes(std::span<const uint16_t, 256> points) const;
  bool reads_bytes() const { return reads_bytes_; }

  // Characters have the numbers 0 to `count() - 1`.
  size_t count() const { return count_; }
  size_t end() const { return count_; }        // what follows the last character
  size_t begin() const { return count_ + 1; }  // what stands before the first one
  // The symbols of the set with this number.
  const SymbolSet& of_set(size_t number) const { return set_symbols_[number]; }

  uint8_t of_ascii(uint8_t byte) const { return ascii_[byte]; }
  uint8_t of_point(uint32_t point) const { return pages_[page_of_[point >> 8] + (point & 0xff)]; }

  // The symbol of the character at `at`, below `size`, and its length. Whatever the bytes are, this reads
  // none beyond, and the length is at least 1 and not more than what is left.
  uint8_t at(const uint8_t* text, size_t size, size_t at, size_t& length) const {
    const uint8_t lead = text[at];
    if (lead < 0x80) {
      length = 1;
      return ascii_[lead];
    }
    return at_wide(text, size, at, length);
  }

  // The symbol of the character before `at`, or `begin()`.
  size_t before(const uint8_t* text, size_t at) const {
    if (at == 0) return begin();
    size_t start = at - 1;
    while (!reads_bytes_ && start > 0 && at - start < 4 && (text[start] & 0xc0) == 0x80) --start;
    size_t length = 0;
    return this->at(text, at, start, length);
  }

  size_t bytes() const { return pages_.size() + page_of_.size() * sizeof(uint32_t) + sizeof(*this); }

 private:
  static constexpr uint32_t kReplacement = 0xfffd;

  uint8_t at_wide(const uint8_t* text, size_t size, size_t at, size_t& length) const {
    const uint32_t lead = text[at];
    if (reads_bytes_) {
      length = 1;
      return pages_[lead];
    }
    const auto tail = [&](size_t place) { return text[at + place] & 0x3fu; };
    if (lead < 0xe0) {
      if (size - at >= 2) {
        length = 2;
        return of_point((lead & 0x1f) << 6 | tail(1));
      }
    } else if (lead < 0xf0) {
      if (size - at >= 3) {
        length = 3;
        return of_point((lead & 0x0f) << 12 | tail(1) << 6 | tail(2));
      }
    } else if (size - at >= 4) {
      const uint32_t point = (lead & 7) << 18 | tail(1) << 12 | tail(2) << 6 | tail(3);
      length = 4;
      return of_point(point <= kLastPoint ? point : kReplacement);
    }
    length = 1;
    return of_point(kReplacement);
  }

  size_t count_ = 0;
  bool reads_bytes_ = false;  // then there is one page, of all bytes
  std::array<uint8_t, 128> ascii_{};
  std::vector<uint32_t> page_of_;
  std::vector<uint8_t> pages_;
  std::vector<SymbolSet> set_symbols_;
};

}  // namespace krill::regex
