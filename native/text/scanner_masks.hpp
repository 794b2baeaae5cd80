// Word boundaries in sixty-four bytes at once, by arithmetic on bit masks.
//
// A block begins where a word begins, so nothing before it matters. What the masks can't say (rules that look
// far ahead, whitespace and numbers beyond ASCII) lowers `known`: the positions before it are certain, and
// the scan continues from the last certain boundary, or character by character if there is none. The last
// bytes of a text are a block too, padded with blanks.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "text/char_class.hpp"
#include "text/scanner.hpp"
#include "text/scanner_block.hpp"
#include "text/scanner_words.hpp"

namespace krill::text {

static_assert(kScanRoom >= kScanBlock);

using Mask = uint64_t;

constexpr Mask bit(unsigned place) { return Mask{1} << place; }
constexpr Mask below(unsigned place) { return place < kScanBlock ? bit(place) - 1 : ~Mask{0}; }
inline unsigned lowest(Mask mask) { return static_cast<unsigned>(std::countr_zero(mask)); }
inline unsigned highest(Mask mask) { return 63 - static_cast<unsigned>(std::countl_zero(mask)); }

// Where the run of ones that ends just below `end` begins.
inline unsigned run_begin(Mask mask, unsigned end) {
  const Mask zeros = ~mask & below(end);
  return kScanBlock - static_cast<unsigned>(std::countl_zero(zeros));
}

// A byte belongs to the class of its character, so a character of several bytes is a run like any other.
struct Masks {
  Mask letters;  // by case also marks that follow one
  Mask upper;    // these two by case only
  Mask lower;
  Mask numbers;
  Mask spaces;
  Mask newlines;
  Mask blanks;  // U+0020
  Mask apostrophes;
  Mask slashes;        // where they matter
  Mask continuations;  // bytes of a character after its first
  unsigned end;        // where the text ends, `kScanBlock` if it goes on
  unsigned known;

  Mask others() const { return ~(letters | numbers | spaces); }
  bool known_to_the_end() const { return known == end; }
  void stop(Mask at) {
    if (at != 0 && lowest(at) < known) known = lowest(at);
  }
};

constexpr unsigned of(CharClass kind) { return 1u << static_cast<unsigned>(kind); }
constexpr unsigned kCasedAndNot = of(CharClass::letter) | of(CharClass::upper) | of(CharClass::lower);

// `bits` if the class is one of those in `classes`, else none; without a branch, which would often be
// mispredicted.
inline Mask bits_if(Mask bits, CharClass kind, unsigned classes) {
  return bits & (Mask{0} - (classes >> static_cast<unsigned>(kind) & 1));
}

// Characters of more than one byte. Reads up to three bytes beyond the block.
template <Letters kLetters>
void add_wide(Masks& masks, const uint8_t* text, Mask wide) {
  constexpr bool kCased = kLetters == Letters::by_case;
  constexpr unsigned kInWord = kCasedAndNot | (kLetters == Letters::with_marks ? of(CharClass::mark) : 0);
  while (wide != 0) {
    const unsigned place = lowest(wide);
    const Character character = character_at(text + place, 4);
    const Mask bits = below(character.length) << place;
    const CharClass kind = character.kind;
    wide &= ~bits;
    if (kind >= CharClass::number) {
      masks.spaces |= bits_if(bits, kind, of(CharClass::space));
      return masks.stop(bits);
    }
    masks.continuations |= bits & ~bit(place);
    masks.letters |= bits_if(bits, kind, kInWord);
    if constexpr (kCased) {
      masks.upper |= bits_if(bits, kind, of(CharClass::upper));
      masks.lower |= bits_if(bits, kind, of(CharClass::lower));
      if (kind == CharClass::mark) {
        if ((masks.letters << 1 & bit(place)) == 0 && place != 0) return masks.stop(bits);
        masks.letters |= bits;
      }
    }
  }
}

template <Letters kLetters, class Block>
Masks masks_of(const Pattern& pattern, const uint8_t* text, unsigned end) {
  const Block block(text);
  Masks masks{};
  masks.end = end;
  masks.known =
      end < kScanBlock ? end : kScanBlock - 1;  // what a whitespace character does depends on the next one
  if constexpr (kLetters == Letters::by_case) {
    masks.upper = block.within('A', 'Z');
    masks.lower = block.within('a', 'z');
    masks.letters = masks.upper | masks.lower;
  } else {
    masks.letters = block.letters();
  }
  masks.numbers = block.within('0', '9');
  masks.blanks = block.equal(' ');
  masks.spaces = block.within('\t', '\r') | masks.blanks;
  masks.apostrophes = block.equal('\'');
  if constexpr (kLetters != Letters::after_blank) {
    masks.newlines = block.equal('\n') | block.equal('\r');
    if (pattern.slashes) masks.slashes = block.equal('/');
  }
  if (const Mask wide = block.wide()) add_wide<kLetters>(masks, text, wide);
  return masks;
}

// A contraction at `place` is one word, or the end of one.
inline void join_contraction(Mask& starts, unsigned place, size_t length) {
  const unsigned end = place + static_cast<unsigned>(length);
  starts &= ~(below(end) & ~below(place + 1));
  if (end < kScanBlock) starts |= bit(end);
}

inline void join_contractions(Contractions kind, Mask& starts, Mask apostrophes, const uint8_t* text) {
  for (; apostrophes != 0; apostrophes &= apostrophes - 1) {
    const unsigned place = lowest(apostrophes);
    const size_t length = contraction_length(kind, text + place, 3);
    if (length != 0) join_contraction(starts, place, length);
  }
}

inline Mask gpt2_starts(const Masks& masks, const uint8_t* text) {
  const Mask letters = masks.letters;
  const Mask numbers = masks.numbers;
  const Mask spaces = masks.spaces;
  const Mask others = masks.others();
  const Mask changes = (letters & ~(letters << 1)) | (numbers & ~(numbers << 1)) | (others & ~(others << 1));
  const Mask words = changes & ~(masks.blanks << 1);
  // Of whitespace, the first character of a run and the last one, which the next word may take.
  Mask starts = words | (spaces & (~(spaces << 1) | ~(spaces >> 1)));
  join_contractions(Contractions::lower, starts, masks.apostrophes & words & letters >> 1, text);
  return starts;
}

// Whitespace where newlines matter. Those right after other characters belong to them. Of the run that is
// left, everything up to the last newline is one word; then come the rest but for its last character, and
// that.
inline Mask space_starts(Masks& masks, Mask others) {
  const Mask spaces = masks.spaces;
  const Mask newlines = masks.newlines;
  const Mask blank = spaces & ~newlines;
  Mask after_newline = blank & newlines << 1;
  // A blank run between newlines: no boundary, unless those before it belong to other characters.
  for (Mask ends = blank << 1 & newlines; ends != 0; ends &= ends - 1) {
    const unsigned begin = run_begin(blank, lowest(ends));
    if (begin == 0 || !(after_newline & bit(begin))) continue;
    const unsigned newlines_begin = run_begin(newlines, begin);
    const bool joined = newlines_begin > 0 && (others & bit(newlines_begin - 1));
    if (!joined) after_newline &= ~bit(begin);
  }
  // A blank run that may go on beyond what is known may have a newline there.
  if (!masks.known_to_the_end() && blank & bit(masks.known)) masks.known = run_begin(blank, masks.known);
  const Mask first = spaces & ~(spaces << 1) & ~(newlines & others << 1);
  const Mask last = blank & ~(spaces >> 1);
  return first | after_newline | last;
}

inline Mask number_starts(const Pattern& pattern, Mask numbers) {
  if (pattern.numbers == 1) return numbers;
  Mask starts = numbers & ~(numbers << 1);
  if (pattern.numbers == 3) {
    const Mask fourth = numbers & numbers << 1 & numbers << 2 & numbers << 3;
    for (Mask third = starts << 3 & fourth; third != 0; third = third << 3 & fourth) starts |= third;
  }
  return starts;
}

// By case: a contraction after letters belongs to them, but only one.
inline void join_suffixes(Contractions kind, Mask& starts, const Masks& masks, const uint8_t* text) {
  unsigned joined_end = 0;
  Mask apostrophes = masks.apostrophes & masks.letters << 1 & masks.letters >> 1;
  for (; apostrophes != 0; apostrophes &= apostrophes - 1) {
    const unsigned place = lowest(apostrophes);
    if (place == joined_end) continue;
    const size_t length = contraction_length(kind, text + place, 3);
    if (length == 0) continue;
    starts &= ~bit(place);
    join_contraction(starts, place, length);
    joined_end = place + static_cast<unsigned>(length);
  }
}

// cl100k: whitespace that ends the text is one word, whatever newlines it has.
inline void stop_at_last_spaces(Masks& masks) {
  if (!masks.known_to_the_end()) return;
  const unsigned begin = run_begin(masks.spaces, masks.end);
  const Mask after_newline = masks.newlines << 1 & masks.spaces & ~masks.newlines;
  if (after_newline & below(masks.end) & ~below(begin)) masks.stop(bit(begin));
}

// All patterns but gpt2.
template <Letters kLetters>
Mask newer_starts(const Pattern& pattern, Masks& masks, const uint8_t* text) {
  const Mask letters = masks.letters;
  const Mask others = masks.others();
  const Mask blank = masks.spaces & ~masks.newlines;
  // Where a word begins with an `other` character; all of that character leads the letters that follow it.
  const Mask other_starts = others & ~(others << 1) & ~(masks.blanks << 1);
  Mask leaders = other_starts;
  for (int more = 0; more < 3; ++more) leaders |= leaders << 1 & masks.continuations;
  Mask starts = letters & ~(letters << 1) & ~((blank | leaders) << 1);
  starts |= other_starts | number_starts(pattern, masks.numbers) | space_starts(masks, others);
  const Contractions kind = pattern.contractions;
  if constexpr (kLetters == Letters::by_case) {
    starts |= masks.upper & masks.lower << 1;
    // Upper case after a caseless letter: what follows decides.
    masks.stop(masks.upper & (letters & ~masks.upper & ~masks.lower) << 1);
    if (kind != Contractions::none) join_suffixes(kind, starts, masks, text);
  } else if (kind != Contractions::none) {
    join_contractions(kind, starts, masks.apostrophes & other_starts & letters >> 1, text);
  }
  // A slash after newlines that may belong to other characters before them.
  masks.stop(masks.slashes & masks.newlines << 1);
  if (pattern.ends_whole) stop_at_last_spaces(masks);
  return starts;
}

template <Letters kLetters>
Mask word_starts(const Pattern& pattern, Masks& masks, const uint8_t* text) {
  if constexpr (kLetters == Letters::after_blank)
    return gpt2_starts(masks, text);
  else
    return newer_starts<kLetters>(pattern, masks, text);
}

// Writes the ends of the words in a block, but for those that are not certain, and returns how many. `end` is
// where the text ends inside it, and then its end is one of them. `place` is where the block begins, and then
// the last end: not read back from where it was written, since the next block waits for it.
template <Letters kLetters, class Block>
size_t scan_block(const Pattern& pattern, const uint8_t* block, unsigned end, size_t& place, uint32_t* ends) {
  Masks masks = masks_of<kLetters, Block>(pattern, block, end);
  Mask starts = word_starts<kLetters>(pattern, masks, block);
  starts &= below(masks.known) & ~Mask{1};
  if (masks.known_to_the_end()) starts |= bit(masks.end);
  if (starts == 0) return 0;
  const size_t count = Block::write_places(starts, static_cast<uint32_t>(place), ends);
  place += highest(starts);
  return count;
}

// Writes the ends of words as `scan_words` does, by blocks where possible, else one by one.
template <Letters kLetters, class Block>
size_t scan(const Pattern& pattern, const uint8_t* bytes, size_t size, size_t from, uint32_t* ends,
            size_t capacity) {
  constexpr size_t kBeyond = 3;  // what is read after a block, to see its last character and contraction
  const ScanText text{bytes, size};
  size_t count = 0;
  size_t place = from;
  while (place < size && count < capacity) {
    const size_t left = size - place;
    size_t found = 0;
    if (capacity - count < kScanRoom) {
      if (count > 0) break;
    } else if (left >= kScanBlock + kBeyond) {
      found = scan_block<kLetters, Block>(pattern, bytes + place, kScanBlock, place, ends + count);
    } else if (left < kScanBlock) {
      uint8_t last[kScanBlock + kBeyond];
      std::memset(last, ' ', sizeof last);
      std::memcpy(last, bytes + place, left);
      found = scan_block<kLetters, Block>(pattern, last, static_cast<unsigned>(left), place, ends + count);
    }
    if (found == 0) {
      place = word_end<kLetters>(pattern, text, place);
      ends[count + found++] = static_cast<uint32_t>(place);
    }
    count += found;
  }
  return count;
}

template <class Block>
size_t scan_by(const Pattern& pattern, const uint8_t* text, size_t size, size_t from, uint32_t* ends,
               size_t capacity) {
  using enum Pattern::Letters;
  switch (pattern.letters) {
    case after_blank: return scan<after_blank, Block>(pattern, text, size, from, ends, capacity);
    case after_any: return scan<after_any, Block>(pattern, text, size, from, ends, capacity);
    case with_marks: return scan<with_marks, Block>(pattern, text, size, from, ends, capacity);
    case by_case: return scan<by_case, Block>(pattern, text, size, from, ends, capacity);
  }
  return 0;
}

}  // namespace krill::text
