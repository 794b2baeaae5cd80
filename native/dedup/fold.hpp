// Text as it is compared by the search for near-duplicates: words in lower case, without diacritics,
// punctuation and symbols, with every number written as 0. In: UTF-8. Out: code points and gaps between
// words, one at a time, so that text of any length takes the same few bytes. The definition is
// `reference_words` in Python.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "text/char_class.hpp"

namespace krill::dedup {

enum class FoldKind : uint8_t {
  kKeep,       // stays as it is
  kShift,      // becomes the character at this distance
  kPair,       // decomposes into two
  kDrop,       // marks and invisible characters
  kSpace,      // whitespace, punctuation, symbols, controls
  kSeparator,  // the same, but may be inside a number
  kDigit,
};

struct FoldRun {
  uint32_t first;
  uint32_t last;
  FoldKind kind;
  int32_t change;
};

extern const FoldRun kFoldRuns[];
extern const size_t kFoldRunCount;
extern const uint32_t kFoldPairs[][2];

// The runs spread out into pages of code points: 100 KB, made once.
class FoldTable {
 public:
  static const FoldTable& get();

  struct Entry {
    FoldKind kind : 8;
    int32_t change : 24;
  };
  static_assert(sizeof(Entry) == 4);

  Entry of(uint32_t point) const {
    return pages_[page_of_[point / text::kCharPage] * text::kCharPage + point % text::kCharPage];
  }

  // ASCII needs no second look: a letter in lower case, or one of these.
  static constexpr uint8_t kAsciiSpace = 0;
  static constexpr uint8_t kAsciiSeparator = 1;
  static constexpr uint8_t kAsciiDigit = 2;
  uint8_t of_ascii(uint8_t byte) const { return ascii_[byte]; }

 private:
  FoldTable();
  Entry* writable(uint32_t point);

  std::vector<uint16_t> page_of_;
  std::vector<Entry> pages_;
  uint8_t ascii_[128];
};

inline constexpr uint32_t kHangulFirst = 0xac00;
inline constexpr uint32_t kHangulCount = 11172;

// Calls `sink.letter(point)` and `sink.gap()`; gaps may be adjacent, and at either end.
// Each maximal ill-formed part is a gap.
template <class Sink>
class TextFolder {
 public:
  explicit TextFolder(Sink& sink) : sink_(sink) {}

  void fold(const uint8_t* text, size_t size) {
    for (size_t at = 0; at < size;) {
      if (text[at] < 0x80) {
        fold_ascii(text[at++]);
        continue;
      }
      const text::Character character = text::character_at(text + at, size - at);
      if (character.well_formed) {
        fold_point(decode(text + at, character.length));
      } else {
        space();
      }
      at += character.length;
    }
  }

 private:
  // The state inside a number: digits, perhaps one separator, more digits. All of it becomes one 0.
  enum class Number : uint8_t { none, whole, separator, fraction };

  static uint32_t decode(const uint8_t* text, size_t length) {
    uint32_t point = text[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; ++i) point = point << 6 | (text[i] & 0x3fu);
    return point;
  }

  void fold_ascii(uint8_t byte) {
    const uint8_t folded = table_.of_ascii(byte);
    if (folded > FoldTable::kAsciiDigit) {
      letter(folded);
    } else if (folded == FoldTable::kAsciiSpace) {
      space();
    } else if (folded == FoldTable::kAsciiDigit) {
      digit();
    } else {
      separator();
    }
  }

  void fold_point(uint32_t point) {
    if (point - kHangulFirst < kHangulCount) return hangul(point - kHangulFirst);
    const FoldTable::Entry entry = table_.of(point);
    switch (entry.kind) {
      case FoldKind::kKeep: return letter(point);
      case FoldKind::kShift: return letter(static_cast<uint32_t>(static_cast<int32_t>(point) + entry.change));
      case FoldKind::kPair: letter(kFoldPairs[entry.change][0]); return letter(kFoldPairs[entry.change][1]);
      case FoldKind::kDrop: return end_number();
      case FoldKind::kSpace: return space();
      case FoldKind::kSeparator: return separator();
      case FoldKind::kDigit: return digit();
    }
  }

  // The canonical decomposition of a syllable: initial, vowel, perhaps a final.
  void hangul(uint32_t syllable) {
    letter(0x1100 + syllable / 588);
    letter(0x1161 + syllable % 588 / 28);
    if (syllable % 28 != 0) letter(0x11a7 + syllable % 28);
  }

  void letter(uint32_t point) {
    if (number_ != Number::none) end_number();
    sink_.letter(point);
  }

  void space() {
    number_ = Number::none;  // a separator that was held back is a gap as well
    sink_.gap();
  }

  void digit() {
    if (number_ == Number::none) {
      sink_.letter('0');
      number_ = Number::whole;
    } else if (number_ == Number::separator) {
      number_ = Number::fraction;
    }
  }

  void separator() {
    if (number_ == Number::whole) {
      number_ = Number::separator;
    } else {
      space();
    }
  }

  void end_number() {
    if (number_ == Number::separator) sink_.gap();
    number_ = Number::none;
  }

  const FoldTable& table_ = FoldTable::get();
  Sink& sink_;
  Number number_ = Number::none;
};

}  // namespace krill::dedup
