// A set of 128-bit hashes in one allocation whose size is given and never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "buffer.hpp"
#include "dedup/hash.hpp"

namespace krill::dedup {

class TableFull : public std::runtime_error {
 public:
  TableFull() : std::runtime_error("the hash table has no room for another key") {}
};

// Open addressing with linear probing; a slot is the hash itself. Memory is untouched until it is used.
class HashSet {
 public:
  // At least 32 bytes: one key and the free slot that ends a search.
  explicit HashSet(size_t capacity_bytes);

  // Sets first[i] to 1 where hashes[i] is seen for the first time, else 0. Throws TableFull at the first
  // new key beyond max_keys; keys before it stay.
  void insert(const Hash* hashes, size_t count, uint8_t* first);

  size_t size() const { return keys_ + has_zero_; }
  size_t max_keys() const { return max_keys_; }
  size_t nbytes() const { return table_.size() * sizeof(Hash); }

 private:
  size_t home(const Hash& hash) const;
  bool insert_one(const Hash& hash);

  Buffer<Hash> table_;
  size_t max_keys_;
  size_t keys_ = 0;
  bool has_zero_ = false;  // an all-zero slot is a free one, so the all-zero hash is kept here
};

}  // namespace krill::dedup
