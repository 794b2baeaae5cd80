// A table from keys to the least number seen with each, in one allocation whose size is given and never
// changes. It groups bands of MinHash (key: the band's value, number: the document), and edges of a graph.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "dedup/hash.hpp"
#include "dedup/hash_set.hpp"

namespace krill::dedup {

// Records are stored as Hash: `low` is the number and `high` the key, so that they are partitioned by key.
class MinTable {
 public:
  // At least 32 bytes: one key and the free slot that ends a search.
  explicit MinTable(size_t capacity_bytes);

  // Sets least[i] to the least number that was seen with the key of records[i] so far. Throws TableFull at
  // the first new key beyond max_keys; earlier records stay. The number 2^64 - 1 is reserved.
  void fold(const Hash* records, size_t count, uint64_t* least);

  size_t size() const { return keys_; }
  size_t max_keys() const { return max_keys_; }
  size_t nbytes() const { return table_.size() * sizeof(Hash); }

 private:
  size_t home(uint64_t key) const;
  uint64_t fold_one(const Hash& record);

  Buffer<Hash> table_;  // a free slot is one whose number, kept inverted, is 0
  size_t max_keys_;
  size_t keys_ = 0;
};

}  // namespace krill::dedup
