#include "dedup/hash_set.hpp"

#include <bit>

namespace krill::dedup {
namespace {

// Four keys in five slots: a search for a new key then looks at 13 slots on average, in three or four
// neighbouring cache lines. Fuller tables save little memory and search much longer.
size_t keys_for(size_t slots) { return slots - (slots + 4) / 5; }

// Far enough ahead for a slot to arrive from memory before it is looked at.
constexpr size_t kHashesAhead = 16;

}  // namespace

HashSet::HashSet(size_t capacity_bytes)
    : table_(Buffer<Hash>::zeros(table_slots(capacity_bytes))), max_keys_(keys_for(table_.size())) {}

// Both words matter: the keys of one partition share some bits of the high one.
size_t HashSet::home(const Hash& hash) const {
  const uint64_t mixed = (hash.low ^ std::rotl(hash.high, 32)) * 0x9e3779b97f4a7c15u;
  using Wide = unsigned __int128;
  return static_cast<size_t>((static_cast<Wide>(mixed) * table_.size()) >> 64);
}

bool HashSet::insert_one(const Hash& hash) {
  constexpr Hash kFree{0, 0};
  if (hash == kFree) {
    const bool first = !has_zero_;
    has_zero_ = true;
    return first;
  }
  size_t slot = home(hash);
  while (!(table_[slot] == kFree)) {
    if (table_[slot] == hash) return false;
    if (++slot == table_.size()) slot = 0;
  }
  if (keys_ == max_keys_) throw TableFull();
  table_[slot] = hash;
  ++keys_;
  return true;
}

void HashSet::insert(const Hash* hashes, size_t count, uint8_t* first) {
  for (size_t i = 0; i < count; ++i) {
    if (i + kHashesAhead < count) __builtin_prefetch(table_.data() + home(hashes[i + kHashesAhead]), 1);
    first[i] = insert_one(hashes[i]);
  }
}

}  // namespace krill::dedup
