// Where a long word may be cut without changing its tokens: between two characters unless some merge's left
// part ends in the one and its right part begins with the other.
//
// In: the merges, once. Out: the pieces of a word. Held in memory: 3 KB for pairs of ASCII and U+2581, and
// for others a bit set of at most 512 KB.
//
// A merge across a boundary needs a left part that ends there and a right part that begins there, so where no
// merge has such parts, none ever happens. Bits of pairs beyond ASCII may collide: that only means a cut
// less. Parts of characters, as byte-level tokens may be, count for every character that they may belong to.
// Characters without a token are never parted from each other where the library fuses them or lets one's
// bytes overtake another, nor from anything where they are left out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpe/symbols.hpp"
#include "bpe/vocabulary.hpp"
#include "tokenizer/model.hpp"

namespace krill::bpe {

class PieceCuts final : public tokenizer::PieceCutter {
 public:
  // `merges` holds left, right and new id of each. There must be no prefix or suffix of symbols, and in a
  // byte-level vocabulary all bytes.
  PieceCuts(const Vocabulary& vocabulary, const Symbols& symbols, std::span<const uint32_t> merges);

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) const override;
  bool has_runs() const override { return !byte_level_; }
  // Of all cuts, those before U+2581 (and spaces that are read as it) and between letters and other ASCII;
  // and those behind runs of spaces that keep apart from what follows.
  size_t cut_runs(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                  size_t capacity) const override;

  size_t held_bytes() const { return sizeof *this + 8 * (joined_.size() + known_.size()); }

 private:
  // What a boundary beside a character without a token is.
  enum class Unknown : uint8_t {
    free,        // a cut
    together,    // a cut if the other character has a token
    everywhere,  // none
  };

  // ASCII and U+2581.
  static constexpr size_t kSmall = 129;
  // Rows and columns of a table of pairs: ASCII, and the three bytes of U+2581. Only its last byte has a row
  // of its own, and only its first a column.
  static constexpr size_t kFirst = 128, kMiddle = 129, kLast = 130;
  static constexpr size_t kRows = 131;
  static constexpr size_t kRowWords = 3;
  // For parts of characters: the first byte of a character that a right part begins, the last byte of one
  // that a left part ends.
  static constexpr uint32_t kLead = 0x200000;
  static constexpr uint32_t kTail = 0x300000;

  // Where a cut is looked for next, and the character before.
  struct Cursor {
    TextCharacter left;
    size_t at;
  };
  struct Edge {
    uint32_t key;  // a character, or kLead or kTail with a byte
    bool valid;    // false: no boundary of characters
  };

  static size_t small_index(uint32_t point) { return point < 0x80 ? point : point == kMark ? 0x80 : kSmall; }
  static Edge left_edge(std::span<const uint8_t> left);
  static Edge right_edge(std::span<const uint8_t> right);

  static unsigned plain_bytes(const uint8_t* text);
  size_t cut_plain(const uint8_t* text, Cursor& cursor, uint32_t* ends) const;
  size_t cut_any(const uint8_t* text, size_t size, Cursor& cursor, uint32_t* ends, size_t capacity) const;
  void collect(const Vocabulary& vocabulary, std::span<const uint32_t> merges);
  void note_unknown(const Symbols& symbols, std::span<const uint32_t> merges);
  size_t bit(uint32_t left, uint32_t right) const {
    return ((uint64_t{left} << 22 | right) * 0x9e3779b97f4a7c15u) >> shift_;
  }
  bool is_joined(uint32_t left, uint32_t right) const {
    const size_t place = bit(left, right);
    return (joined_[place / 64] >> place % 64 & 1) != 0;
  }
  bool is_known(uint32_t point) const {
    return point < kNoCharacter && (known_[point / 64] >> point % 64 & 1) != 0;
  }
  void join_small(size_t left, size_t right);
  void read_spaces_as_marks();
  bool small_cut(size_t left, size_t right) const {
    const size_t row = left < 0x80 ? left : kLast, column = right < 0x80 ? right : kFirst;
    return (rows_[row][column / 64] >> column % 64 & 1) == 0;
  }
  bool is_cut(TextCharacter left, uint8_t last_byte, TextCharacter right, uint8_t lead) const;
  bool is_cut_at(const uint8_t* text, size_t size, size_t from, size_t at) const;
  bool is_separate_run(const uint8_t* text, size_t begin, size_t end) const;

  bool byte_level_;
  bool spaces_are_marks_;
  bool has_parts_ = false;      // of characters
  uint64_t separate_runs_ = 0;  // of spaces that are read as U+2581, a bit for each length
  Unknown unknown_ = Unknown::free;
  std::array<uint8_t, 256> index_{};                           // row and column of a byte
  std::array<std::array<uint64_t, kRowWords>, kRows> rows_{};  // a bit for each pair that is no cut
  std::vector<uint64_t> joined_;
  unsigned shift_ = 58;
  std::vector<uint64_t> known_;  // characters with a token, unless unknown ones are free
};

}  // namespace krill::bpe
