// A Bloom filter over 128-bit hashes, in blocks of one cache line: whether a hash was seen before is answered
// with one access to memory. How many blocks and bits a stated rate takes is worked out by the caller
// (`krill.dedup.bloom`).
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "dedup/hash.hpp"

namespace krill::dedup {

class BloomFilter {
 public:
  static constexpr size_t kBlockBytes = 64;
  static constexpr unsigned kMostBits = 64;

  // `blocks` of 512 bits, of which each hash sets up to `bits` in one block. Both are 1 or more.
  BloomFilter(size_t blocks, unsigned bits);

  // Sets first[i] to 1 where hashes[i] was certainly not seen before, else 0.
  void insert(const Hash* hashes, size_t count, uint8_t* first);

  size_t nbytes() const { return words_.size() * sizeof(uint64_t); }

 private:
  uint64_t* block_of(const Hash& hash);

  size_t blocks_;
  unsigned bits_;
  Buffer<uint64_t> words_;
};

}  // namespace krill::dedup
