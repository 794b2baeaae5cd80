#include "dedup/min_table.hpp"

#include <algorithm>
#include <stdexcept>

namespace krill {
namespace {

using std::size_t;
using std::uint64_t;

constexpr size_t kPrefetchDistance = 12;

size_t slots_in(size_t capacity_bytes) {
  const size_t slots = capacity_bytes / sizeof(Hash);
  if (slots < 2) throw std::invalid_argument("a table takes at least 32 bytes");
  return slots;
}

}  // namespace

// Four keys for five slots, as in HashSet.
MinTable::MinTable(size_t capacity_bytes)
    : table_(Buffer<Hash>::zeros(slots_in(capacity_bytes))), max_keys_(table_.size() - (table_.size() + 4) / 5) {}

size_t MinTable::home(uint64_t key) const {
  using Wide = unsigned __int128;
  return static_cast<size_t>((static_cast<Wide>(key * 0x9e3779b97f4a7c15u) * table_.size()) >> 64);
}

uint64_t MinTable::fold_one(const Hash& record) {
  const uint64_t inverted = ~record.low;
  size_t slot = home(record.high);
  while (table_[slot].low != 0) {
    if (table_[slot].high == record.high) {
      table_[slot].low = std::max(table_[slot].low, inverted);
      return ~table_[slot].low;
    }
    if (++slot == table_.size()) slot = 0;
  }
  if (keys_ == max_keys_) throw TableFull();
  table_[slot] = {inverted, record.high};
  ++keys_;
  return record.low;
}

void MinTable::fold(const Hash* records, size_t count, uint64_t* least) {
  for (size_t i = 0; i < count; ++i) {
    if (i + kPrefetchDistance < count)
      __builtin_prefetch(table_.data() + home(records[i + kPrefetchDistance].high), 1);
    least[i] = fold_one(records[i]);
  }
}

}  // namespace krill
