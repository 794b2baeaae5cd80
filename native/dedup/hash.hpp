// The identity of a document: MurmurHash3, x64 form, 128 bits (equal to the Python package mmh3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "buffer.hpp"
#include "text/column.hpp"

namespace krill::dedup {

struct Hash {
  uint64_t low;
  uint64_t high;

  friend bool operator==(const Hash&, const Hash&) = default;
  friend auto operator<=>(const Hash&, const Hash&) = default;
};
static_assert(sizeof(Hash) == 16);

Hash hash_bytes(const uint8_t* data, size_t size, uint32_t seed);

// One hash for each document. The column must have been checked.
Buffer<Hash> hash_documents(const text::TextColumn& documents, uint32_t seed);

// The slots of a table of hashes in `capacity_bytes`.
inline size_t table_slots(size_t capacity_bytes) {
  if (capacity_bytes < 2 * sizeof(Hash)) throw std::invalid_argument("a hash table needs at least 32 bytes");
  return capacity_bytes / sizeof(Hash);
}

}  // namespace krill::dedup
