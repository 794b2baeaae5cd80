#include "bpe/word_shard.hpp"

#include <cstring>

namespace krill::bpe {

namespace {

constexpr size_t kMinEntries = 8;

}  // namespace

WordShard::WordShard(size_t quota, std::atomic<size_t>& held) : quota_(quota), held_(held) {
  chunk_shift_ = 8;
  while (chunk_shift_ < 16 && (size_t{8} << chunk_shift_) < quota) ++chunk_shift_;
}

WordShard::~WordShard() { reset(); }

std::string_view WordShard::word_at(uint32_t place) const {
  const uint8_t* at = chunks_[place >> chunk_shift_].get() + (place & (chunk_bytes() - 1));
  uint16_t size;
  std::memcpy(&size, at, 2);
  return {reinterpret_cast<const char*>(at + 2), size};
}

bool WordShard::add(const uint8_t* word, size_t size, uint64_t hash, uint64_t count) {
  if (used_ * 5 >= entries_.size() * 4 && !grow()) return false;
  const uint32_t mark = tag(hash);
  const std::string_view text(reinterpret_cast<const char*>(word), size);
  size_t at = slot(mark);
  while (entries_[at].count != 0) {
    Entry& entry = entries_[at];
    if (entry.tag == mark && word_at(entry.place) == text) {
      entry.count += count;
      return true;
    }
    if (++at == entries_.size()) at = 0;
  }
  uint32_t place;
  if (!store(word, size, place)) return false;
  entries_[at] = {place, mark, count};
  ++used_;
  return true;
}

// A half more room, or what the quota leaves.
bool WordShard::grow() {
  const size_t now = entries_.size() * sizeof(Entry) + chunks_.size() * chunk_bytes();
  const size_t room = quota_ > now ? (quota_ - now) / sizeof(Entry) : 0;
  const size_t wanted = entries_.size() + entries_.size() / 2;
  const size_t size = std::max(kMinEntries, std::min(wanted, entries_.size() + room));
  if (size <= entries_.size() + entries_.size() / 16) return false;
  std::vector<Entry> old(size);
  old.swap(entries_);
  held_ += size * sizeof(Entry);
  for (const Entry& entry : old) {
    if (entry.count == 0) continue;
    size_t at = slot(entry.tag);
    while (entries_[at].count != 0)
      if (++at == size) at = 0;
    entries_[at] = entry;
  }
  held_ -= old.size() * sizeof(Entry);
  return true;
}

bool WordShard::store(const uint8_t* word, size_t size, uint32_t& place) {
  if (chunks_.empty() || chunk_used_ + 2 + size > chunk_bytes()) {
    const size_t now = entries_.size() * sizeof(Entry) + chunks_.size() * chunk_bytes();
    // The first chunk is always had, else a shard of no quota could hold nothing.
    if (!chunks_.empty() && now + chunk_bytes() > quota_) return false;
    if (((chunks_.size() + 1) << chunk_shift_) > size_t{0xffffffff}) return false;
    chunks_.push_back(std::make_unique_for_overwrite<uint8_t[]>(chunk_bytes()));
    held_ += chunk_bytes();
    chunk_used_ = 0;
  }
  place = static_cast<uint32_t>(((chunks_.size() - 1) << chunk_shift_) + chunk_used_);
  uint8_t* at = chunks_.back().get() + chunk_used_;
  const auto length = static_cast<uint16_t>(size);
  std::memcpy(at, &length, 2);
  std::memcpy(at + 2, word, size);
  chunk_used_ += 2 + size;
  return true;
}

void WordShard::reset() {
  held_ -= entries_.size() * sizeof(Entry) + chunks_.size() * chunk_bytes();
  entries_ = {};
  chunks_.clear();
  chunk_used_ = used_ = 0;
}

}  // namespace krill::bpe
