// The identity of a document: MurmurHash3, x64 form, 128 bits (equal to the Python package mmh3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "buffer.hpp"
#include "text/column.hpp"

namespace krill {

struct Hash {
  std::uint64_t low;
  std::uint64_t high;

  friend bool operator==(const Hash&, const Hash&) = default;
  friend auto operator<=>(const Hash&, const Hash&) = default;
};
static_assert(sizeof(Hash) == 16);

Hash hash_bytes(const std::uint8_t* data, std::size_t size, std::uint32_t seed);

// One hash for each document. The column must have been checked.
Buffer<Hash> hash_documents(const TextColumn& documents, std::uint32_t seed);

// The slots of a table of hashes in so many bytes.
inline std::size_t table_slots(std::size_t capacity_bytes) {
  if (capacity_bytes < 2 * sizeof(Hash)) throw std::invalid_argument("a hash table needs at least 32 bytes");
  return capacity_bytes / sizeof(Hash);
}

}  // namespace krill
