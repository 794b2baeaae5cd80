// Text without special tokens to ids: cut into words, looked up in the cache, merged where they are not there.
//
// In: a stretch of text. Out: ids, of the smallest type that holds the vocabulary. Held in memory: the cache, and
// the scratch of the longest word. One thread at a time uses a WordEncoder; what it refers to is shared.
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
#include "text/scanner.hpp"

namespace krill {

struct WordStatistics {
  std::uint64_t words = 0;
  std::uint64_t bytes = 0;
  std::uint64_t misses = 0;  // words that were merged
  std::uint64_t miss_bytes = 0;
  // Only some misses are timed: reading the clock takes as long as a short word.
  std::uint64_t timed_bytes = 0;
  std::uint64_t timed_nanoseconds = 0;

  void add(const WordStatistics& other);
};

// How words are cut and merged: what all threads share.
struct WordModel {
  const Vocabulary& vocabulary;
  const MergeTable& merges;
  Pattern pattern;
  bool ignore_merges;       // a word that is a token is that token, whatever the merges make of it
  std::mutex& long_words;  // held while a word longer than kSharedScratch is merged, so that its scratch exists once
};

template <class Id>
class WordEncoder {
 public:
  // Ids are written in blocks: so much room must be behind the last.
  static constexpr std::size_t kSpareIds = LongWordTable<Id>::kMaxIds;
  // A smaller cache is rounded up to this.
  static constexpr std::size_t kLeastCache = 4096;
  static constexpr std::size_t kSharedScratch = 64 * 1024;

  WordEncoder(const WordModel& model, std::size_t cache_bytes);

  // Calls use(begin, end, first id, end of ids) for each word, and returns where the ids end. There are no more ids
  // than bytes.
  template <class Use>
  Id* encode_each(const std::uint8_t* text, std::size_t size, Id* out, Use&& use);

  Id* encode(const std::uint8_t* text, std::size_t size, Id* out) {
    return encode_each(text, size, out, [](std::size_t, std::size_t, Id*, Id*) {});
  }

  // Of everything since the last call.
  WordStatistics take_statistics() { return std::exchange(statistics_, {}); }

 private:
  // Words are cut so many at a time: near the end of its room the scanner is slow.
  static constexpr std::size_t kBatch = 1024;
  // So many are hashed before the first is looked up: their sets of the cache are on their way from memory then.
  static constexpr std::size_t kAhead = 64;
  static constexpr std::uint64_t kTimedMisses = 16;  // one in so many

  void look_ahead(const std::uint8_t* text, std::size_t size, std::size_t begin, const std::uint32_t* ends,
                  std::size_t count);
  Id* encode_word(const std::uint8_t* word, std::size_t size, std::size_t readable, std::uint64_t hash, Id* out);
  template <class Table>
  Id* from_table(Table& table, const std::uint8_t* word, std::size_t size, std::size_t readable,
                 std::uint64_t hash, Id* out);
  std::size_t miss(const std::uint8_t* word, std::size_t size, Id* out);
  std::size_t merge(const std::uint8_t* word, std::size_t size, Id* out);

  WordModel model_;
  WordMerger merger_;
  ShortWordTable<Id> short_words_;
  LongWordTable<Id> long_words_;
  MergeScratch scratch_;
  std::uint32_t ends_[kBatch];
  std::uint64_t hashes_[kAhead];
  WordStatistics statistics_;
};

template <class Id>
template <class Use>
Id* WordEncoder<Id>::encode_each(const std::uint8_t* text, std::size_t size, Id* out, Use&& use) {
  std::size_t begin = 0;
  while (begin < size) {
    const std::size_t count = scan_words(model_.pattern, text, size, begin, ends_, kBatch);
    statistics_.words += count;
    for (std::size_t first = 0; first < count; first += kAhead) {
      const std::size_t some = std::min(kAhead, count - first);
      look_ahead(text, size, begin, ends_ + first, some);
      for (std::size_t i = 0; i < some; ++i) {
        const std::size_t end = ends_[first + i];
        Id* const ids = out;
        out = encode_word(text + begin, end - begin, size - begin, hashes_[i], out);
        use(begin, end, ids, out);
        begin = end;
      }
    }
  }
  statistics_.bytes += size;
  return out;
}

template <class Id>
inline Id* WordEncoder<Id>::encode_word(const std::uint8_t* word, std::size_t size, std::size_t readable,
                                        std::uint64_t hash, Id* out) {
  if (size <= ShortWordTable<Id>::Key::kLongest) [[likely]]
    return from_table(short_words_, word, size, readable, hash, out);
  if (size <= LongWordTable<Id>::Key::kLongest) return from_table(long_words_, word, size, readable, hash, out);
  return out + miss(word, size, out);
}

template <class Id>
template <class Table>
inline Id* WordEncoder<Id>::from_table(Table& table, const std::uint8_t* word, std::size_t size,
                                       std::size_t readable, std::uint64_t hash, Id* out) {
  const auto key = Table::Key::load(word, size, readable);
  if (const typename Table::Entry* entry = table.find(key, hash)) [[likely]] {
    // All of them, whatever their number: a copy of constant size is two instructions.
    std::memcpy(out, entry->ids, sizeof entry->ids);
    return out + entry->count();
  }
  const std::size_t count = miss(word, size, out);
  table.insert(key, hash, out, count);
  return out + count;
}

}  // namespace krill
