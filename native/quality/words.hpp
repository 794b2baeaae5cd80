// The word splitter: words as tests/oracles/words.py defines them, in one pass, without memory of its own.
//
// In: UTF-8. Out: each word's offset and length in bytes, in order, passed to a function. Everything except
// whitespace belongs to exactly one word.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>

#include "quality/byte_kinds.hpp"
#include "quality/contractions.hpp"
#include "quality/traits.hpp"

namespace krill::quality {

inline std::string_view view(const uint8_t* text, size_t size) {
  return {reinterpret_cast<const char*>(text), size};
}

struct Span {
  uint32_t begin;
  uint32_t size;
};

// Lengths in bytes of what is taken off the front and the end of a chunk of at least one byte; 0 for nothing.
size_t front_mark(const uint8_t* text, size_t size);
size_t back_mark(const uint8_t* text, size_t size);
// Whether a character beyond ASCII may join two words; no letter does.
inline bool may_join(uint32_t point, Traits traits) {
  return (traits & kPicture) != 0 || (point >= 0x2013 && point <= 0x2026);  // dashes to the ellipsis
}
// The length of what joins two words at a place inside a chunk.
size_t joint(const uint8_t* text, size_t size, size_t at);
bool is_address(const uint8_t* text, size_t size);

// Two words of one byte each that are one: smileys, and a letter with its full stop.
inline constexpr std::array<std::array<uint64_t, 2>, 128> kPairs = [] {
  std::array<std::array<uint64_t, 2>, 128> pairs{};
  const auto add = [&](size_t first, size_t second) {
    pairs[first][second / 64] |= uint64_t{1} << second % 64;
  };
  constexpr std::string_view kSmileys = ":)(:=)(=:][:[==]:}8);)(;:():=(:/=/=|:|]==[:*:>''";
  for (size_t i = 0; i < kSmileys.size(); i += 2)
    add(static_cast<uint8_t>(kSmileys[i]), static_cast<uint8_t>(kSmileys[i + 1]));
  for (size_t letter = 'a'; letter <= 'z'; ++letter) add(letter, '.');
  return pairs;
}();
inline bool are_one_word(uint8_t first, uint8_t second) {
  return first < 128 && second < 128 && (kPairs[first][second / 64] >> second % 64 & 1) != 0;
}

constexpr size_t kMaxBackMarks = 256;

// `kByScript` cuts scripts without spaces into words; without it they are letters as any others.
template <class Emit, bool kByScript = true>
class WordSplitter {
 public:
  WordSplitter(const uint8_t* text, size_t size, Emit emit)
      : text_(text), size_(size), emit_(std::move(emit)) {}

  void run() {
    while (at_ < size_) {
      if (take_plain_word()) continue;
      const size_t begin = at_;
      const uint8_t seen = find_chunk_end();
      if (at_ > begin) split_chunk(begin, at_, seen);
      if (at_ < size_) after_chunk();
    }
  }

 private:
  static constexpr Traits kCutScripts = kByScript ? kUnspaced : 0;

  void emit(size_t begin, size_t size) {
    emit_(Span{static_cast<uint32_t>(begin), static_cast<uint32_t>(size)});
  }

  // What most chunks are: letters, perhaps a mark, a space. Leaves everything else alone.
  bool take_plain_word() {
    const uint8_t* text = text_ + at_;
    const size_t left = size_ - at_;
    const size_t letters = letters_at_front(text, left);
    if (letters == 0 || letters == left) return false;
    const uint8_t after = text[letters];
    const bool spaced = kByteKinds[after] == kSpaceByte;
    if (!spaced) {
      if (left < letters + 2 || kByteKinds[text[letters + 1]] != kSpaceByte) return false;
      // A full stop after a small letter ends a sentence, unless an abbreviation has it.
      const bool stop = after == '.' && letters > 1 && (text[letters - 1] & 0x20) != 0 &&
                        kContractionTable.find(text, letters + 1) == nullptr;
      if (!stop && after != ',' && after != ';' && after != ':' && after != '!' && after != '?') return false;
    }
    if (kContractionTable.find(text, letters) != nullptr) return false;
    emit(at_, letters);
    if (!spaced) emit(at_ + letters, 1);
    at_ += letters + (spaced ? 1 : 2);
    return true;
  }

  // Goes on to whitespace or to a script without spaces; returns what kinds of bytes were seen, `kHighByte`
  // only of characters that may join words.
  uint8_t find_chunk_end() {
    uint8_t seen = 0;
    while (at_ < size_) {
      const uint8_t kind = kByteKinds[text_[at_]];
      if (kind == kSpaceByte) break;
      if (kind == kHighByte) {
        const Character here = character_at(text_ + at_, size_ - at_);
        const Traits traits = traits_of(here.point);
        if (traits & (kSpace | kCutScripts)) break;
        at_ += here.length;
        if (may_join(here.point, traits)) seen |= kHighByte;
        continue;
      }
      seen |= kind;
      ++at_;
    }
    return seen;
  }

  // Whitespace, or a run of one script without spaces.
  void after_chunk() {
    const Character first = character_at(text_ + at_, size_ - at_);
    const Traits script = traits_of(first.point) & kCutScripts;
    if (script == 0) {
      at_ += first.length;
      return;
    }
    const size_t most = script == kWideMark ? 1 : 2;
    const size_t begin = at_;
    for (size_t characters = 0; characters < most && at_ < size_; ++characters) {
      const Character here = character_at(text_ + at_, size_ - at_);
      if ((traits_of(here.point) & kUnspaced) != script) break;
      at_ += here.length;
    }
    emit(begin, at_ - begin);
  }

  void split_chunk(size_t begin, size_t end, uint8_t seen) {
    uint32_t back[kMaxBackMarks];  // where pieces that were taken off the end begin
    size_t backs = 0;
    const size_t chunk_end = end;
    const Contraction* known = nullptr;
    pending_size_ = 0;
    while (begin < end && (known = kContractionTable.find(text_ + begin, end - begin)) == nullptr) {
      size_t before = front_mark(text_ + begin, end - begin);
      const bool open = begin + before < end && backs < kMaxBackMarks;
      size_t after = open ? back_mark(text_ + begin + before, end - begin - before) : 0;
      if (before != 0 && is_known(begin + before, end))
        after = 0;
      else if (after != 0 && is_known(begin, end - after))
        before = 0;
      if (before == 0 && after == 0) break;
      if (before != 0) hold(begin, before);
      begin += before;
      end -= after;
      if (after != 0) back[backs++] = static_cast<uint32_t>(end);
    }
    inner_words(begin, end, known, seen);
    while (backs > 0) {
      const size_t place = back[--backs];
      hold(place, (backs > 0 ? back[backs - 1] : chunk_end) - place);
    }
    release();
  }

  bool is_known(size_t begin, size_t end) const {
    return begin < end && kContractionTable.find(text_ + begin, end - begin) != nullptr;
  }

  void inner_words(size_t begin, size_t end, const Contraction* known, uint8_t seen) {
    if (begin == end) return;
    if (known != nullptr) {
      for (const uint8_t length : known->words) {
        if (length != 0) hold(begin, length);
        begin += length;
      }
    } else if ((seen & (kDotByte | kJointByte | kHighByte)) == 0 ||
               ((seen & kDotByte) != 0 && is_address(text_ + begin, end - begin))) {
      hold(begin, end - begin);
    } else {
      split_inside(begin, end);
    }
  }

  void split_inside(size_t begin, size_t end) {
    const uint8_t* text = text_ + begin;
    const size_t size = end - begin;
    size_t word = 0;
    for (size_t at = 0; at < size;) {
      const bool may_join = (kByteKinds[text[at]] & (kDotByte | kJointByte | kHighByte)) != 0;
      const size_t length = may_join ? joint(text, size, at) : 0;
      if (length != 0 && at > 0) {
        if (word < at) hold(begin + word, at - word);
        hold(begin + at, length);
        word = at + length;
      }
      at += length != 0 ? length : character_at(text + at, size - at).length;
    }
    if (word < size) hold(begin + word, size - word);
  }

  // One word is held back, because the next one may belong to it.
  void hold(size_t begin, size_t size) {
    if (size == 1 && pending_size_ == 1 && are_one_word(text_[pending_], text_[begin])) {
      pending_size_ = 2;
      return;
    }
    release();
    pending_ = begin;
    pending_size_ = size;
  }

  void release() {
    if (pending_size_ != 0) emit(pending_, pending_size_);
    pending_size_ = 0;
  }

  const uint8_t* text_;
  size_t size_;
  Emit emit_;
  size_t at_ = 0;
  size_t pending_ = 0;
  size_t pending_size_ = 0;
};

// Calls `emit(Span)` for each word.
template <class Emit>
void split_words(const uint8_t* text, size_t size, Emit emit) {
  WordSplitter<Emit>(text, size, std::move(emit)).run();
}

// The same, with scripts without spaces left whole.
template <class Emit>
void split_whole_words(const uint8_t* text, size_t size, Emit emit) {
  WordSplitter<Emit, false>(text, size, std::move(emit)).run();
}

}  // namespace krill::quality
