// Splitting a stream of hashes into partitions by some of their bits, and joining their flags again.
//
// Both are stable: within a partition the stream's order stays. So a partition needs no positions: a second
// pass over the stream finds the members of each partition in the order in which they were written.
#pragma once

#include <cstddef>
#include <cstdint>

#include "buffer.hpp"
#include "dedup/hash.hpp"

namespace krill::dedup {

// Which bits of the hash name its partition: `width` of them from `shift` upward, where bit 0 is the lowest
// of `high` and bit 64 the lowest of `low`.
struct Digit {
  unsigned shift;
  unsigned width;

  static constexpr unsigned kMaxWidth = 12;
  // Throws std::invalid_argument unless 1 <= width <= kMaxWidth and the digit lies within 128 bits.
  void check() const;
  size_t partitions() const { return size_t{1} << width; }
  size_t of(const Hash& hash) const {
    using Wide = unsigned __int128;
    const Wide key = (static_cast<Wide>(hash.low) << 64) | hash.high;
    return static_cast<size_t>(key >> shift) & (partitions() - 1);
  }
};

struct Partitioned {
  Buffer<Hash> hashes;     // partition 0's, then partition 1's, ...
  Buffer<int64_t> counts;  // how many in each
};

Partitioned partition_hashes(const Hash* hashes, size_t count, Digit digit);

// `flags` are in the order of partition_hashes' output for these hashes; returns them in the hashes' order.
Buffer<uint8_t> join_flags(const Hash* hashes, size_t count, Digit digit, const uint8_t* flags);

}  // namespace krill::dedup
