// Text without special tokens to ids: cut into words, which are looked up in the cache or merged.
//
// In: a range of text. Out: ids, of the smallest type that holds the vocabulary. Held in memory: the cache,
// and the scratch of the longest word. One thread at a time uses a WordEncoder; what it refers to is shared.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <utility>

#include "bpe/vocabulary.hpp"
#include "bpe/vocabulary_merges.hpp"
#include "bpe/word_cache.hpp"
#include "bpe/word_merger.hpp"
#include "growing_buffer.hpp"
#include "text/scanner.hpp"

namespace krill::bpe {

struct WordStatistics {
  uint64_t words = 0;
  uint64_t bytes = 0;
  uint64_t misses = 0;  // words that were merged
  uint64_t miss_bytes = 0;
  // Only some misses are timed: reading the clock takes as long as a short word.
  uint64_t timed_bytes = 0;
  uint64_t timed_nanoseconds = 0;

  void add(const WordStatistics& other);
};

// How words are cut and merged: what all threads share.
struct WordModel {
  const Vocabulary& vocabulary;
  const MergeTable& merges;
  text::Pattern pattern;
  bool ignore_merges;  // a word that is a token is encoded as it, whatever the merges say
  // Held while a word longer than kSharedScratch is merged, so that its scratch exists once.
  std::mutex& long_words;
};

template <class Id>
class WordEncoder {
 public:
  // A smaller cache is rounded up to this.
  static constexpr size_t kLeastCache = 16 * 1024;
  static constexpr size_t kSharedScratch = 64 * 1024;

  WordEncoder(const WordModel& model, size_t cache_bytes);

  void encode(const uint8_t* text, size_t size, GrowingBuffer<Id>& ids) {
    encode_each(text, size, ids, [](size_t, size_t, const Id*, const Id*) {});
  }
  // The same, calling use(begin, end, ids, end of ids) for each word.
  template <class Use>
  void encode_each(const uint8_t* text, size_t size, GrowingBuffer<Id>& ids, Use&& use);

  // Of everything since the last call.
  WordStatistics take_statistics() { return std::exchange(statistics_, {}); }

 private:
  // Words cut at a time: near the end of its buffer the scanner is slow.
  static constexpr size_t kBatch = 1024;
  // Words located in the cache before the first is looked up, so that their sets are prefetched.
  static constexpr size_t kAhead = 64;
  static constexpr uint64_t kTimedMisses = 16;  // one miss in so many is timed
  // A word that takes this many nanoseconds a byte or more was interrupted by another program.
  static constexpr size_t kInterrupted = 500;

  using ShortTable = ShortWordTable<Id>;
  using LongTable = LongWordTable<Id>;
  using LongestTable = LongestWordTable<Id>;

  struct Ahead {
    typename ShortTable::Key key;  // of a short word; a long one's is cheaper to make again than to keep
    void* set;                     // of the table that its length says
  };

  void look_ahead(const uint8_t* text, size_t size, size_t begin, const uint32_t* ends, size_t count);
  Id* encode_word(const Ahead& ahead, const uint8_t* word, size_t size, size_t readable, Id* out);
  template <class Table>
  Id* from_table(void* set, const typename Table::Key& key, const uint8_t* word, size_t size, Id* out);
  size_t miss(const uint8_t* word, size_t size, Id* out);
  size_t merge(const uint8_t* word, size_t size, Id* out);

  WordModel model_;
  WordMerger merger_;
  ShortTable short_words_;
  LongTable long_words_;
  LongestTable longest_words_;
  MergeScratch scratch_;
  uint32_t ends_[kBatch];
  Ahead ahead_[kAhead];
  WordStatistics statistics_;
};

template <class Id>
template <class Use>
void WordEncoder<Id>::encode_each(const uint8_t* text, size_t size, GrowingBuffer<Id>& ids, Use&& use) {
  size_t begin = 0;
  while (begin < size) {
    const size_t count = scan_words(model_.pattern, text, size, begin, ends_, kBatch);
    statistics_.words += count;
    // No word has more ids than bytes, and those from the cache are copied in blocks.
    Id* out = ids.room(ends_[count - 1] - begin + LongestTable::kMaxIds);
    for (size_t first = 0; first < count; first += kAhead) {
      const size_t some = std::min(kAhead, count - first);
      look_ahead(text, size, begin, ends_ + first, some);
      for (size_t i = 0; i < some; ++i) {
        const size_t end = ends_[first + i];
        Id* const first_id = out;
        out = encode_word(ahead_[i], text + begin, end - begin, size - begin, out);
        use(begin, end, first_id, out);
        begin = end;
      }
    }
    ids.set_end(out);
  }
  statistics_.bytes += size;
}

template <class Id>
inline Id* WordEncoder<Id>::encode_word(const Ahead& ahead, const uint8_t* word, size_t size, size_t readable,
                                        Id* out) {
  if (size <= ShortTable::Key::kLongest) [[likely]]
    return from_table<ShortTable>(ahead.set, ahead.key, word, size, out);
  if (size <= LongTable::Key::kLongest)
    return from_table<LongTable>(ahead.set, LongTable::Key::load(word, size, readable), word, size, out);
  if (size <= LongestTable::Key::kLongest)
    return from_table<LongestTable>(ahead.set, LongestTable::Key::load(word, size, readable), word, size,
                                    out);
  return out + miss(word, size, out);
}

template <class Id>
template <class Table>
inline Id* WordEncoder<Id>::from_table(void* place, const typename Table::Key& key, const uint8_t* word,
                                       size_t size, Id* out) {
  auto& set = *static_cast<typename Table::Set*>(place);
  if (const typename Table::Entry* entry = Table::find(set, key)) [[likely]] {
    // All of them, whatever their number: a copy of constant size is two instructions.
    std::memcpy(out, entry->ids, sizeof entry->ids);
    return out + entry->count();
  }
  const size_t count = miss(word, size, out);
  Table::insert(set, key, out, count);
  return out + count;
}

}  // namespace krill::bpe
