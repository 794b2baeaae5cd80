// Text as datatrove compares it: each character replaced by what a table says, numbers written as 0,
// whitespace collapsed to single spaces and taken off both ends.
//
// The table comes from outside, made of datatrove's own rules, so that it fits whichever version is
// installed. Held: the table, 100 KB and what its replacements take.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/column.hpp"
#include "text/growing_buffer.hpp"

namespace krill::datatrove {

enum class Change : std::uint8_t {
  kText,  // becomes other characters, or nothing
  kSpace,
  kDigit,
  kSeparator,  // may stand once within a number; elsewhere it becomes its replacement
};
inline constexpr std::size_t kChanges = 4;

class Simplifier {
 public:
  using Text = text::GrowingBuffer<std::uint8_t>;

  // For each of `points` (rising), a `Change` and, in a checked column, its replacement as UTF-8. Throws
  // std::invalid_argument for what is no code point or no change, and for replacements above 255 bytes.
  Simplifier(const std::uint32_t* points, const std::uint8_t* changes, const TextColumn& replacements);

  // Puts the simplified text in place of what `out` holds. Bytes that are not UTF-8 are spaces.
  void simplify(const std::uint8_t* text, std::size_t size, Text& out) const;

 private:
  struct Entry {
    std::uint32_t at;  // of the replacement
    std::uint8_t size;
    Change change;
  };
  // What a character becomes; the first entry is that of characters that stay as they are.
  const Entry& entry_of(std::uint32_t point) const;
  std::string_view replacement(const Entry& entry) const {
    return {replacements_.data() + entry.at, entry.size};
  }

  std::vector<Entry> entries_;
  std::vector<char> replacements_;
  std::vector<std::uint16_t> page_of_;
  std::vector<std::uint32_t> pages_;
  // What an ASCII character becomes if that is one other character and not a digit; otherwise 0.
  std::array<std::uint8_t, 128> plain_;
};

}  // namespace krill::datatrove
