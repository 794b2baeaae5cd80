// Text as datatrove compares it: each character replaced by a table, numbers written as 0, whitespace
// collapsed to single spaces and stripped.
//
// The table comes from outside, made of datatrove's own rules, so that it fits whichever version is
// installed. Held in memory: the table, 100 KB and its replacements.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "growing_buffer.hpp"
#include "text/column.hpp"

namespace krill::datatrove {

enum class Change : uint8_t {
  kText,  // becomes other characters, or nothing
  kSpace,
  kDigit,
  kSeparator,  // may be inside a number once; elsewhere it becomes its replacement
};
inline constexpr size_t kChanges = 4;

class Simplifier {
 public:
  using Text = GrowingBuffer<uint8_t>;

  // For each of `points` (rising), a `Change` and, in a checked column, its replacement as UTF-8. Throws
  // std::invalid_argument for what is no code point or no change, and for replacements above 255 bytes.
  Simplifier(const uint32_t* points, const uint8_t* changes, const text::TextColumn& replacements);

  // Replaces the content of `out` by the simplified text. Bytes that are not UTF-8 are spaces.
  void simplify(const uint8_t* text, size_t size, Text& out) const;

 private:
  struct Entry {
    uint32_t at;  // of the replacement
    uint8_t size;
    Change change;
  };
  // What a character becomes; the first entry is that of characters that stay as they are.
  const Entry& entry_of(uint32_t point) const;
  std::string_view replacement(const Entry& entry) const {
    return {replacements_.data() + entry.at, entry.size};
  }

  std::vector<Entry> entries_;
  std::vector<char> replacements_;
  std::vector<uint16_t> page_of_;
  std::vector<uint32_t> pages_;
  // What an ASCII character becomes if that is one other character and not a digit; otherwise 0.
  std::array<uint8_t, 128> plain_;
};

}  // namespace krill::datatrove
