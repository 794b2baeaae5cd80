#include "dedup/min_table.hpp"

#include <algorithm>
#include <stdexcept>

namespace krill::dedup {
namespace {

constexpr size_t kRecordsAhead = 12;

}  // namespace

// Four keys for five slots, as in HashSet.
MinTable::MinTable(size_t capacity_bytes)
    : table_(Buffer<Hash>::zeros(table_slots(capacity_bytes))),
      max_keys_(table_.size() - (table_.size() + 4) / 5) {}

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
    if (i + kRecordsAhead < count)
      __builtin_prefetch(table_.data() + home(records[i + kRecordsAhead].high), 1);
    least[i] = fold_one(records[i]);
  }
}

}  // namespace krill::dedup
