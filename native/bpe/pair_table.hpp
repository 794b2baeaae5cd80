// Pairs of tokens with their counts and the place of their postings: open addressing, up to a fixed size.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bpe/word_hash.hpp"

namespace krill::bpe {

using Pair = uint64_t;  // left << 32 | right: compares as (left, right)

inline Pair pair_of(uint32_t left, uint32_t right) { return static_cast<Pair>(left) << 32 | right; }
inline uint32_t left_of(Pair pair) { return static_cast<uint32_t>(pair >> 32); }
inline uint32_t right_of(Pair pair) { return static_cast<uint32_t>(pair); }

class PairTable {
 public:
  static constexpr Pair kEmpty = ~Pair{0};
  static constexpr uint32_t kUnposted = 0xffffffffu;

  struct Entry {
    Pair pair = kEmpty;
    int64_t count = 0;
    uint32_t posted_at = kUnposted;
    union {
      uint32_t bytes = 0;  // of its postings, while they are counted
      float density;       // bytes of its postings for each occurrence, when they were counted last
    };
  };
  static_assert(sizeof(Entry) == 24);

  // Empty, and may grow to hold `pairs`; it begins small, since most vocabularies need less.
  void reset(size_t pairs) {
    most_slots_ = kFewSlots;
    while (most_slots_ / 4 * 3 < pairs) most_slots_ *= 2;
    entries_ = {};
    entries_.resize(kFewSlots);
    used_ = 0;
  }

  bool full() const { return used_ >= most_slots_ / 4 * 3; }
  size_t used() const { return used_; }
  const std::vector<Entry>& entries() const { return entries_; }

  void prefetch(Pair pair) const {
    __builtin_prefetch(entries_.data() + (hash(pair) & (entries_.size() - 1)));
  }

  Entry* find(Pair pair) {
    Entry& entry = entries_[slot(pair)];
    return entry.pair == pair ? &entry : nullptr;
  }

  // The pair's entry, added if missing; the table must not be full. Invalidates references to entries.
  Entry& insert(Pair pair) {
    if (used_ >= entries_.size() / 4 * 3) grow();
    Entry& entry = entries_[slot(pair)];
    if (entry.pair != pair) {
      entry = Entry{};
      entry.pair = pair;
      ++used_;
    }
    return entry;
  }

  static uint64_t hash(Pair pair) { return mix64(pair ^ 0x9e3779b97f4a7c15u, 0xc2b2ae3d27d4eb4fu); }

 private:
  // Where the pair is or would be.
  size_t slot(Pair pair) const {
    const size_t mask = entries_.size() - 1;
    size_t at = hash(pair) & mask;
    while (entries_[at].pair != pair && entries_[at].pair != kEmpty) at = (at + 1) & mask;
    return at;
  }

  void grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old)
      if (entry.pair != kEmpty) entries_[slot(entry.pair)] = entry;
  }

  static constexpr size_t kFewSlots = 16;

  std::vector<Entry> entries_ = std::vector<Entry>(kFewSlots);
  size_t most_slots_ = kFewSlots;
  size_t used_ = 0;
};

}  // namespace krill::bpe
