#include "bpe/encoder_words.hpp"

#include <algorithm>
#include <chrono>

namespace krill::bpe {

void WordStatistics::add(const WordStatistics& other) {
  words += other.words;
  bytes += other.bytes;
  misses += other.misses;
  miss_bytes += other.miss_bytes;
  timed_bytes += other.timed_bytes;
  timed_nanoseconds += other.timed_nanoseconds;
}

template <class Id>
WordEncoder<Id>::WordEncoder(const WordModel& model, size_t cache_bytes)
    : model_(model),
      merger_(model.vocabulary, model.merges),
      short_words_(std::max(cache_bytes, kLeastCache) / 16 * 11),
      long_words_(std::max(cache_bytes, kLeastCache) / 16 * 4),
      longest_words_(std::max(cache_bytes, kLeastCache) / 16) {}

template <class Id>
void WordEncoder<Id>::look_ahead(const uint8_t* text, size_t size, size_t begin, const uint32_t* ends,
                                 size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const size_t length = ends[i] - begin;
    if (length <= ShortTable::Key::kLongest) [[likely]] {
      ahead_[i].key = ShortTable::Key::load(text + begin, length, size - begin);
      ahead_[i].set = short_words_.locate(ahead_[i].key);
    } else if (length <= LongTable::Key::kLongest) {
      ahead_[i].set = long_words_.locate(LongTable::Key::load(text + begin, length, size - begin));
    } else if (length <= LongestTable::Key::kLongest) {
      ahead_[i].set = longest_words_.locate(LongestTable::Key::load(text + begin, length, size - begin));
    }
    begin = ends[i];
  }
}

template <class Id>
size_t WordEncoder<Id>::miss(const uint8_t* word, size_t size, Id* out) {
  statistics_.miss_bytes += size;
  if (statistics_.misses++ % kTimedMisses != 0) [[likely]]
    return merge(word, size, out);
  const auto begun = std::chrono::steady_clock::now();
  const size_t count = merge(word, size, out);
  const auto taken = std::chrono::steady_clock::now() - begun;
  const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(taken).count();
  if (static_cast<size_t>(nanoseconds) > kInterrupted * (size + 16)) return count;
  statistics_.timed_bytes += size;
  statistics_.timed_nanoseconds += static_cast<uint64_t>(nanoseconds);
  return count;
}

template <class Id>
size_t WordEncoder<Id>::merge(const uint8_t* word, size_t size, Id* out) {
  if (model_.ignore_merges) {
    const uint32_t token = model_.vocabulary.find(word, size);
    if (token != Vocabulary::kNoToken) {
      *out = static_cast<Id>(token);
      return 1;
    }
  }
  if (size <= kSharedScratch) return merger_.merge(word, size, out, scratch_);
  const std::lock_guard lock(model_.long_words);
  const size_t count = merger_.merge(word, size, out, scratch_);
  scratch_.release();
  return count;
}

template class WordEncoder<uint16_t>;
template class WordEncoder<uint32_t>;

}  // namespace krill::bpe
