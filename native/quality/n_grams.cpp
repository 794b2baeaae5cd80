#include "quality/n_grams.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "quality/quick_hash.hpp"

namespace krill::quality {
namespace {

constexpr uint32_t kFront = Words::kSlack;  // bytes by which places are told apart at first

// A word's bytes in two registers, if it has at most sixteen; sixteen can be read at every word.
struct ShortWord {
  uint64_t low;
  uint64_t high;

  ShortWord(const uint8_t* word, uint32_t size) {
    const uint32_t bits = 8 * size;
    low = size >= 8 ? load8(word) : load8(word) & ((uint64_t{1} << bits) - 1);
    high = size == 16  ? load8(word + 8)
           : size <= 8 ? 0
                       : load8(word + 8) & ((uint64_t{1} << (bits - 64)) - 1);
  }
  bool operator==(const ShortWord&) const = default;
};
static_assert(std::endian::native == std::endian::little, "the mask keeps the first bytes");

}  // namespace

TopNGrams::TopNGrams(Scratch& scratch)
    : words_(scratch.document.words()),
      count_(static_cast<uint32_t>(words_.count())),
      table_(scratch.table),
      grams_(scratch.grams.resize_for_overwrite(count_)),
      longer_(scratch.longer_grams.resize_for_overwrite(count_)),
      counts_(scratch.counts.resize_for_overwrite(count_ + 1)) {
  counts_[count_] = 0;
}

TopNGram TopNGrams::most_frequent(uint32_t n) {
  if (n_ == 0) count_words();
  while (n_ < n) lengthen();
  TopNGram top{0, 1};  // if nothing repeats, the first
  for (uint32_t i = 0; i < count_; ++i)
    if (grams_[i] == i && counts_[i] > top.count) top = {i, counts_[i]};
  return top;
}

void TopNGrams::count_words() {
  table_.reset(count_, count_);
  for (uint32_t i = 0; i < count_; ++i) {
    const uint8_t* word = words_.at(i);
    const uint32_t size = words_.size(i);
    if (size <= Words::kSlack) {
      const ShortWord own(word, size);
      grams_[i] = table_.first_of(mix(own.low ^ kSaltA, own.high ^ kSaltB), i, [&](uint32_t other) {
        return words_.size(other) == size && ShortWord(words_.at(other), size) == own;
      });
    } else {
      grams_[i] = table_.first_of(quick_hash(word, size), i, [&](uint32_t other) {
        return words_.size(other) == size && equal_bytes(words_.at(other), word, size);
      });
    }
    counts_[grams_[i]] = grams_[i] == i ? 1 : counts_[grams_[i]] + 1;
  }
  n_ = 1;
}

// From n words in a row to n + 1: they repeat only where both runs of n that they consist of do. What occurs
// once gets the number after the last, whose count is 0.
void TopNGrams::lengthen() {
  const uint32_t once = count_;
  uint32_t repeated = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    grams_[i] = counts_[grams_[i]] < 2 ? once : grams_[i];
    repeated += grams_[i] != once;
  }
  table_.reset(repeated, count_);
  for (uint32_t i = 0; i < count_; ++i) {
    longer_[i] = once;
    if (i + 1 == count_ || grams_[i] == once || grams_[i + 1] == once) continue;
    const uint64_t hash = mix((uint64_t{grams_[i]} << 32 | grams_[i + 1]) ^ kSaltA, kSaltB);
    longer_[i] = table_.first_of(hash, i, [&](uint32_t other) {
      return grams_[other] == grams_[i] && grams_[other + 1] == grams_[i + 1];
    });
    counts_[longer_[i]] = longer_[i] == i ? 1 : counts_[longer_[i]] + 1;
  }
  std::swap(grams_, longer_);
  ++n_;
}

RepeatedNGrams::RepeatedNGrams(Scratch& scratch, uint32_t shortest)
    : words_(scratch.document.words()),
      ascii_(scratch.document.is_ascii()),
      table_(scratch.table),
      shared_(scratch.counts.resize_for_overwrite(words_.count())),
      candidates_(scratch.grams.resize_for_overwrite(words_.count())) {
  find_shared_fronts();
  const size_t count = words_.count();
  for (uint32_t i = 0; i < count; ++i) {
    const size_t end = std::min<size_t>(count, size_t{i} + shortest);
    const bool is_short = words_.begin(end) - words_.begin(i) < kFront;
    if (is_short || shared_[i] != 0) candidates_[candidate_count_++] = i;
  }
}

// What is written together repeats only if its first sixteen bytes do, unless it is shorter than that.
void RepeatedNGrams::find_shared_fronts() {
  const auto count = static_cast<uint32_t>(words_.count());
  table_.reset(count, count);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t low = load8(words_.at(i));
    const uint64_t high = load8(words_.at(i) + 8);
    const uint32_t first = table_.first_of(mix(low ^ kSaltA, high ^ kSaltB), i, [&](uint32_t other) {
      return load8(words_.at(other)) == low && load8(words_.at(other) + 8) == high;
    });
    shared_[i] = first != i;
    if (first != i) shared_[first] = 1;
  }
}

size_t RepeatedNGrams::characters(uint32_t n) {
  const size_t count = words_.count();
  table_.reset(candidate_count_, count);
  size_t characters = 0;
  size_t next = 0;  // words before this one are behind the search
  for (size_t k = 0; k < candidate_count_; ++k) {
    const uint32_t word = candidates_[k];
    if (word < next) continue;
    if (word + size_t{n} > count) break;
    const uint8_t* gram = words_.at(word);
    const uint32_t size = words_.begin(word + n) - words_.begin(word);
    if (size >= kFront && shared_[word] == 0) continue;
    const uint32_t first = table_.first_of(quick_hash(gram, size), word, [&](uint32_t other) {
      return words_.begin(other + n) - words_.begin(other) == size &&
             equal_bytes(words_.at(other), gram, size);
    });
    if (first == word) continue;
    characters += ascii_ ? size : count_characters(gram, size);
    next = size_t{word} + n;
  }
  return characters;
}

}  // namespace krill::quality
