#include "dedup/partition.hpp"

#include <algorithm>
#include <stdexcept>
#include <vector>

namespace krill::dedup {
namespace {

Buffer<int64_t> count_partitions(const Hash* hashes, size_t count, Digit digit) {
  Buffer<int64_t> counts(digit.partitions());
  std::fill_n(counts.data(), counts.size(), 0);
  for (size_t i = 0; i < count; ++i) ++counts[digit.of(hashes[i])];
  return counts;
}

// Where the next member of each partition goes.
std::vector<size_t> first_slots(const Buffer<int64_t>& counts) {
  std::vector<size_t> next(counts.size());
  size_t total = 0;
  for (size_t p = 0; p < counts.size(); ++p) {
    next[p] = total;
    total += static_cast<size_t>(counts[p]);
  }
  return next;
}

}  // namespace

void Digit::check() const {
  if (width < 1 || width > kMaxWidth || shift > 128 - width)
    throw std::invalid_argument("a digit has 1 to 12 bits and lies within the hash's 128");
}

Partitioned partition_hashes(const Hash* hashes, size_t count, Digit digit) {
  Partitioned result{Buffer<Hash>(count), count_partitions(hashes, count, digit)};
  std::vector<size_t> next = first_slots(result.counts);
  for (size_t i = 0; i < count; ++i) result.hashes[next[digit.of(hashes[i])]++] = hashes[i];
  return result;
}

Buffer<uint8_t> join_flags(const Hash* hashes, size_t count, Digit digit, const uint8_t* flags) {
  Buffer<uint8_t> joined(count);
  std::vector<size_t> next = first_slots(count_partitions(hashes, count, digit));
  for (size_t i = 0; i < count; ++i) joined[i] = flags[next[digit.of(hashes[i])]++];
  return joined;
}

}  // namespace krill::dedup
