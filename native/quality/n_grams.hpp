// N-grams of words that a document repeats.
//
// Held in memory while it works: three numbers for each word and three slots of a table for every two, of
// four bytes each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "quality/document.hpp"
#include "quality/filter.hpp"

namespace krill::quality {

// An n-gram, by the index of its first word, and how often it occurs.
struct TopNGram {
  uint32_t word;
  uint32_t count;
};

// An upper bound of what the most frequent n-gram takes, for one n after another: in most documents it shows
// that no limit is reached, in a fraction of the time of finding that n-gram. No n-gram occurs more often
// than each of its words, and words are counted by their hashes alone, so that some are counted too often.
class NGramBounds {
 public:
  explicit NGramBounds(Scratch& scratch);
  // The occurrences of the most frequent n-gram times its bytes, with single spaces between its words, or
  // more. n may not fall from call to call, and is at least 1 and at most the number of words.
  uint64_t bytes(uint32_t n);

 private:
  const Words& words_;
  std::span<uint32_t> counts_;  // at each word, how often the n-gram that begins there occurs at the most
  uint32_t n_ = 1;
};

// The most frequent n-gram, for one n after another.
class TopNGrams {
 public:
  explicit TopNGrams(Scratch& scratch);
  // Of those that are equally frequent the earliest. n may not fall from call to call, and is at least 1 and
  // at most the number of words.
  TopNGram most_frequent(uint32_t n);

 private:
  void count_words();
  void lengthen();

  const Words& words_;
  uint32_t count_;  // of words
  IndexTable& table_;
  std::span<uint32_t> grams_;   // at each word, the first occurrence of the n-gram that begins there
  std::span<uint32_t> longer_;  // the same for n + 1
  std::span<uint32_t> counts_;  // how often the n-gram occurs whose first occurrence this is
  uint32_t n_ = 0;
};

// Which of many hashes were added twice, and a few more of them: a filter of sixteen places for each hash.
class AddedTwice {
 public:
  using Slot = uint32_t;

  // For so many hashes; `bits` is for one more, at least.
  AddedTwice(std::span<uint32_t> bits, size_t hashes) : bits_(bits.first((hashes | 1) + 1)) {
    std::ranges::fill(bits_, 0);
  }

  Slot add(uint64_t hash) {
    const auto pair = static_cast<Slot>((hash >> 32) * (bits_.size() / 2) >> 32);
    const Slot slot = pair << 5 | (hash & 31);
    uint32_t& once = bits_[2 * pair];
    bits_[2 * pair + 1] |= once & uint32_t{1} << (slot & 31);
    once |= uint32_t{1} << (slot & 31);
    return slot;
  }

  bool has(Slot slot) const { return (bits_[(slot >> 5) * 2 + 1] >> (slot & 31) & 1) != 0; }

 private:
  std::span<uint32_t> bits_;  // 32 for what was added once, as many for what was added twice, and so on
};

// How many characters are in n-grams, written without spaces, that occurred before. After such a repetition
// the search continues after it.
class RepeatedNGrams {
 public:
  // `shortest` is the least n that will be asked for.
  RepeatedNGrams(Scratch& scratch, uint32_t shortest);
  size_t characters(uint32_t n);

 private:
  const Words& words_;
  bool ascii_;
  IndexTable& table_;
  std::span<uint32_t> bits_;
  std::span<AddedTwice::Slot> slots_;  // of candidates
  std::span<uint32_t> candidates_;     // packed
};

}  // namespace krill::quality
