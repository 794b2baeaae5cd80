// A cache from words to tokens: a table of exactly the bytes that it is given, which evicts and never grows.
//
// In: words and their tokens. Out: the tokens of words seen before. Held in memory: three tables, for words
// of up to 15, 38 and 158 bytes, with entries of 32 bytes (two to a cache line), 64 and 256. Longer words,
// and words of more tokens than an entry holds, are never cached.
//
// Ids of 16 bits are kept as they are, wider ones in 3 bytes each: 8, 12 and 48 of the former fit an entry,
// 5, 8 and 32 of the latter.
//
// A set holds two entries. A new word takes the second slot and moves to the first when it occurs again, so
// that the many words that occur once evict only each other. Pages that were never touched are not
// resident.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "bpe/word_hash.hpp"
#include "buffer.hpp"

namespace krill::tokenizer {

static_assert(std::endian::native == std::endian::little, "keys are words read as numbers");

// A word padded with zeros to `kLanes` machine words, its length in the bits above its last byte. The highest
// bits are left to the entry: how many tokens it holds.
template <size_t kLanes>
struct WordKey {
  static constexpr unsigned kFieldBits = kLanes == 2 ? 4 : 8;
  static constexpr size_t kLongest = 8 * kLanes - 2 * kFieldBits / 8;
  static constexpr unsigned kCountShift = 64 - kFieldBits;
  static constexpr unsigned kLengthShift = kCountShift - kFieldBits;
  static constexpr uint64_t kCountMask = ~uint64_t{0} << kCountShift;
  static constexpr size_t kMostIds = (size_t{1} << kFieldBits) - 1;
  static_assert(kLongest <= kMostIds);

  std::array<uint64_t, kLanes> lanes;

  // `readable` bytes may be read from `word` on: more than `size`, except near the end of a text.
  static WordKey load(const uint8_t* word, size_t size, size_t readable) {
    WordKey key;
    if (readable >= 8 * kLanes) [[likely]] {
      std::memcpy(key.lanes.data(), word, 8 * kLanes);
      uint64_t kept[kLanes];
      std::memcpy(kept, kMasks.data() + 8 * kLanes - size, sizeof kept);
      for (size_t lane = 0; lane < kLanes; ++lane) key.lanes[lane] &= kept[lane];
    } else {
      key.lanes.fill(0);
      std::memcpy(key.lanes.data(), word, size);
    }
    key.lanes[kLanes - 1] |= uint64_t{size} << kLengthShift;
    return key;
  }

  // The word itself is where the key begins.
  const uint8_t* bytes() const { return reinterpret_cast<const uint8_t*>(lanes.data()); }

  uint64_t hash() const {
    uint64_t state = bpe::mix64(lanes[0] ^ 0x9e3779b97f4a7c15u, lanes[1] ^ 0xc2b2ae3d27d4eb4fu);
    for (size_t lane = 2; lane < kLanes; ++lane)
      state = bpe::mix64(state ^ lanes[lane], 0xff51afd7ed558ccdu + lane);
    return state;
  }

 private:
  // Ones and then zeros; from the middle backwards, so many ones as a word has bytes.
  static constexpr std::array<uint8_t, 16 * kLanes> kMasks = [] {
    std::array<uint8_t, 16 * kLanes> masks{};
    for (size_t i = 0; i < 8 * kLanes; ++i) masks[i] = 0xff;
    return masks;
  }();
};

// How ids are kept in an entry.
template <class Id>
struct PackedIds {
  static constexpr size_t kIdBytes = sizeof(Id) == 2 ? 2 : 3;
  static constexpr uint32_t kLargest = (uint32_t{1} << 8 * kIdBytes) - 1;

  // All `kCount` of them: without a loop of unknown length.
  template <size_t kCount>
  static void load(const uint8_t* packed, Id* out) {
    if constexpr (kIdBytes == sizeof(Id)) {
      std::memcpy(out, packed, kCount * sizeof(Id));
    } else {
      for (size_t i = 0; i < kCount; ++i) {
        uint32_t id = 0;
        // The last one ends with the entry.
        if (i + 1 < kCount) {
          std::memcpy(&id, packed + 3 * i, 4);
          id &= kLargest;
        } else {
          std::memcpy(&id, packed + 3 * i - 1, 4);
          id >>= 8;
        }
        out[i] = id;
      }
    }
  }

  static void store(const uint32_t* ids, size_t count, uint8_t* packed) {
    for (size_t i = 0; i < count; ++i) std::memcpy(packed + kIdBytes * i, ids + i, kIdBytes);
  }
};

// One of the tables. `kEntryBytes` is a whole part of a cache line or several lines.
template <class Id, size_t kLanes, size_t kEntryBytes>
class WordTable {
 public:
  using Key = WordKey<kLanes>;
  static constexpr size_t kIdsBytes = kEntryBytes - 8 * kLanes;
  static constexpr size_t kMaxIds = kIdsBytes / PackedIds<Id>::kIdBytes;
  // A number that no word has: the entry's ids are not known yet, and `ids` has a number instead.
  static constexpr size_t kPending = Key::kMostIds;
  static_assert(kMaxIds < kPending);

  struct alignas(kEntryBytes) Entry {
    Key key;  // with the number of ids in its highest bits; a length of 0 = empty
    uint8_t ids[kIdsBytes];

    size_t count() const { return key.lanes[kLanes - 1] >> Key::kCountShift; }
    void set(const Key& word, size_t count) {
      key = word;
      key.lanes[kLanes - 1] |= uint64_t{count} << Key::kCountShift;
    }
    bool holds(const Key& wanted) const {
      uint64_t different = (key.lanes[kLanes - 1] & ~Key::kCountMask) ^ wanted.lanes[kLanes - 1];
      for (size_t lane = 0; lane + 1 < kLanes; ++lane) different |= key.lanes[lane] ^ wanted.lanes[lane];
      return different == 0;
    }
  };

  struct alignas(2 * kEntryBytes) Set {
    Entry entries[2];
  };

  explicit WordTable(size_t bytes) : memory_(Buffer<uint8_t>::zeros(bytes + alignof(Set))) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    sets_ = reinterpret_cast<Set*>((address + alignof(Set) - 1) / alignof(Set) * alignof(Set));
    count_ = bytes / sizeof(Set);
  }

  // The set of a word; it is prefetched.
  Set* locate(const Key& key) {
    Set* const set = sets_ + (((key.hash() >> 32) * count_) >> 32);
    for (size_t line = 0; line < sizeof(Set); line += 64)
      __builtin_prefetch(reinterpret_cast<char*>(set) + line);
    return set;
  }

  // Null if the word is not in its set. What it points to stays until the next call.
  static Entry* find(Set& set, const Key& key) {
    if (set.entries[0].holds(key)) [[likely]]
      return &set.entries[0];
    if (!set.entries[1].holds(key)) return nullptr;
    std::swap(set.entries[0], set.entries[1]);
    return &set.entries[0];
  }

  // For a word that `find` has not found.
  static void insert(Set& set, const Key& key, const uint32_t* ids, size_t count) {
    if (count > kMaxIds) return;
    set.entries[1].set(key, count);
    PackedIds<Id>::store(ids, count, set.entries[1].ids);
  }

  // The same for a word whose ids are not known yet: it will be `number` until it is resolved or dropped.
  static void insert_pending(Set& set, const Key& key, uint32_t number) {
    set.entries[1].set(key, kPending);
    std::memcpy(set.entries[1].ids, &number, sizeof number);
  }

  // The ids of a pending word, if it is still there; without `keep`, or if there are too many, it goes.
  static void resolve(Set& set, const Key& key, const uint32_t* ids, size_t count, bool keep) {
    for (Entry& entry : set.entries) {
      if (!entry.holds(key)) continue;
      if (keep && count <= kMaxIds) {
        entry.set(key, count);
        PackedIds<Id>::store(ids, count, entry.ids);
      } else {
        entry.key = {};
      }
    }
  }

 private:
  Buffer<uint8_t> memory_;
  Set* sets_;
  uint64_t count_;
};

template <class Id>
using ShortWordTable = WordTable<Id, 2, 32>;
template <class Id>
using LongWordTable = WordTable<Id, 5, 64>;
template <class Id>
using LongestWordTable = WordTable<Id, 20, 256>;

}  // namespace krill::tokenizer
