#include "quality/n_grams.hpp"

#include <algorithm>
#include <bit>
#include <utility>

#include "quality/quick_hash.hpp"

namespace krill::quality {
namespace {

constexpr uint32_t kFront = Words::kSlack;  // bytes by which places are told apart at first
constexpr AddedTwice::Slot kNoSlot = UINT32_MAX;

// A word at which a repetition may begin, or that may be repeated later.
struct Candidate {
  uint32_t word;
  bool is_front_repeated;  // whether the bytes from there on may begin as others do

  static Candidate unpack(uint32_t packed) { return {packed >> 1, (packed & 1) != 0}; }
  uint32_t pack() const { return word << 1 | static_cast<uint32_t>(is_front_repeated); }
};
static_assert(Words::kMost < uint32_t{1} << 31);

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

uint64_t hash_of(const ShortWord& word) { return mix(word.low ^ kSaltA, word.high ^ kSaltB); }

uint64_t hash_of(const uint8_t* word, uint32_t size) {
  return size <= Words::kSlack ? hash_of(ShortWord(word, size)) : quick_hash(word, size);
}

uint64_t hash_front(const uint8_t* bytes) { return mix(load8(bytes) ^ kSaltA, load8(bytes + 8) ^ kSaltB); }

// Of an n-gram's size, its first and its last sixteen bytes: enough for a filter.
uint64_t hash_ends(const uint8_t* gram, uint32_t size) {
  if (size <= kFront) return hash_of(ShortWord(gram, size));
  const uint8_t* end = gram + size;
  return mix(load8(gram) ^ std::rotl(load8(end - 8), 32) ^ kSaltA,
             load8(gram + 8) ^ std::rotl(load8(end - 16), 32) ^ (kSaltB + size));
}

}  // namespace

NGramBounds::NGramBounds(Scratch& scratch)
    : words_(scratch.document.words()), counts_(scratch.grams.resize_for_overwrite(words_.count())) {
  const size_t count = words_.count();
  const std::span<uint32_t> by_hash = scratch.longer_grams.resize_for_overwrite(count);
  std::ranges::fill(by_hash, 0);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t hash = hash_of(words_.at(i), words_.size(i));
    counts_[i] = static_cast<uint32_t>((hash >> 32) * count >> 32);
    ++by_hash[counts_[i]];
  }
  for (uint32_t& word : counts_) word = by_hash[word];
}

uint64_t NGramBounds::bytes(uint32_t n) {
  const size_t count = words_.count();
  for (; n_ < n; ++n_)
    for (size_t i = 0; i + 1 < count; ++i) counts_[i] = std::min(counts_[i], counts_[i + 1]);
  uint64_t most = 0;
  for (size_t i = 0; i + n <= count; ++i) {
    const uint64_t size = words_.begin(i + n) - words_.begin(i) + n - 1;
    most = std::max(most, counts_[i] * size);
  }
  return most;
}

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
      grams_[i] = table_.first_of(hash_of(own), i, [&](uint32_t other) {
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
      bits_(scratch.counts.resize_for_overwrite(words_.count() + 2)),
      slots_(scratch.longer_grams.resize_for_overwrite(words_.count())),
      candidates_(scratch.grams.resize_for_overwrite(words_.count())) {
  // What is written together repeats only if its first sixteen bytes do, unless it is shorter than that.
  const size_t count = words_.count();
  AddedTwice fronts(bits_, count);
  for (size_t i = 0; i < count; ++i) slots_[i] = fronts.add(hash_front(words_.at(i)));
  size_t found = 0;
  for (size_t i = 0; i < count; ++i) {
    const size_t end = std::min<size_t>(count, i + shortest);
    const bool is_short = words_.begin(end) - words_.begin(i) < kFront;
    const bool repeats = fronts.has(slots_[i]);
    candidates_[found] = Candidate{static_cast<uint32_t>(i), repeats}.pack();
    found += is_short || repeats;
  }
  candidates_ = candidates_.first(found);
}

size_t RepeatedNGrams::characters(uint32_t n) {
  const size_t count = words_.count();
  const auto size_at = [&](uint32_t word) { return words_.begin(word + n) - words_.begin(word); };
  AddedTwice grams(bits_, candidates_.size());
  size_t end = 0;
  size_t added = 0;
  for (; end < candidates_.size(); ++end) {
    const Candidate candidate = Candidate::unpack(candidates_[end]);
    if (candidate.word + size_t{n} > count) break;
    const uint32_t size = size_at(candidate.word);
    slots_[end] = kNoSlot;
    if (size >= kFront && !candidate.is_front_repeated) continue;
    slots_[end] = grams.add(hash_ends(words_.at(candidate.word), size));
    ++added;
  }
  table_.reset(added, count);
  size_t characters = 0;
  size_t next = 0;  // words before this one are behind the search
  for (size_t k = 0; k < end; ++k) {
    const uint32_t word = Candidate::unpack(candidates_[k]).word;
    if (word < next || slots_[k] == kNoSlot || !grams.has(slots_[k])) continue;
    const uint8_t* gram = words_.at(word);
    const uint32_t size = size_at(word);
    const uint32_t first = table_.first_of(quick_hash(gram, size), word, [&](uint32_t other) {
      return size_at(other) == size && equal_bytes(words_.at(other), gram, size);
    });
    if (first == word) continue;
    characters += ascii_ ? size : count_characters(gram, size);
    next = size_t{word} + n;
  }
  return characters;
}

}  // namespace krill::quality
