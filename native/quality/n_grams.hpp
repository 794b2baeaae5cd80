// N-grams of words that a document repeats.
//
// Held in memory while it works: three numbers for each word and three slots of a table for every two, of
// four bytes each.
#pragma once

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

// How many characters are in n-grams, written without spaces, that occurred before. After such a repetition
// the search continues after it.
class RepeatedNGrams {
 public:
  // `shortest` is the least n that will be asked for.
  RepeatedNGrams(Scratch& scratch, uint32_t shortest);
  size_t characters(uint32_t n);

 private:
  void find_shared_fronts();

  const Words& words_;
  bool ascii_;
  IndexTable& table_;
  std::span<uint32_t> shared_;      // at each word, whether its front occurs elsewhere too
  std::span<uint32_t> candidates_;  // words at which a repetition may begin, or which may be repeated later
  size_t candidate_count_ = 0;
};

}  // namespace krill::quality
