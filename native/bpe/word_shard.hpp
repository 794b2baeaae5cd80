// A table of words and their counts that never takes more than its quota of bytes.
//
// Open addressing over entries of 16 bytes; the words themselves lie in chunks, each after its length. When
// the quota is used up, `add` refuses: then the shard is drained and begins anew.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "bpe/records.hpp"

namespace krill::bpe {

class WordShard {
 public:
  WordShard(size_t quota, std::atomic<size_t>& held);
  ~WordShard();

  bool holds(size_t word_size) const { return word_size + 2 <= chunk_bytes(); }
  void prefetch(uint64_t hash) const { __builtin_prefetch(entries_.data() + slot(tag(hash))); }
  // Once the slot is in the cache: prefetches the word that it will be compared with.
  void prefetch_word(uint64_t hash) const {
    if (entries_.empty()) return;
    const Entry& entry = entries_[slot(tag(hash))];
    if (entry.count != 0 && entry.tag == tag(hash))
      __builtin_prefetch(chunks_[entry.place >> chunk_shift_].get() + (entry.place & (chunk_bytes() - 1)));
  }
  // False if there is no room: spill, then add again. The word must be one that it `holds`.
  bool add(const uint8_t* word, size_t size, uint64_t hash, uint64_t count);
  // Everything, sorted by hash and word; then the shard is empty.
  template <class Sink>
  void drain(bool sorted, Sink&& sink);
  bool empty() const { return used_ == 0; }

  static uint32_t tag(uint64_t hash) { return static_cast<uint32_t>(hash); }

 private:
  struct Entry {
    uint32_t place;
    uint32_t tag;
    uint64_t count;  // 0 = empty
  };

  size_t slot(uint32_t tag_) const {
    return static_cast<size_t>((static_cast<uint64_t>(tag_) * entries_.size()) >> 32);
  }
  size_t chunk_bytes() const { return size_t{1} << chunk_shift_; }
  std::string_view word_at(uint32_t place) const;
  bool grow();
  bool store(const uint8_t* word, size_t size, uint32_t& place);
  void reset();

  size_t quota_;
  std::atomic<size_t>& held_;
  unsigned chunk_shift_;
  std::vector<Entry> entries_;
  std::vector<std::unique_ptr<uint8_t[]>> chunks_;
  size_t chunk_used_ = 0;
  size_t used_ = 0;
};

template <class Sink>
void WordShard::drain(bool sorted, Sink&& sink) {
  // In place: the table is done with, so its own memory is what gets sorted.
  const auto end =
      std::remove_if(entries_.begin(), entries_.end(), [](const Entry& e) { return e.count == 0; });
  if (sorted) {
    std::sort(entries_.begin(), end, [this](const Entry& a, const Entry& b) {
      return a.tag != b.tag ? a.tag < b.tag : word_at(a.place) < word_at(b.place);
    });
  }
  for (auto entry = entries_.begin(); entry != end; ++entry)
    sink(Record{entry->count, word_at(entry->place)});
  reset();
}

}  // namespace krill::bpe
