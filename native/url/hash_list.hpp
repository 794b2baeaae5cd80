// A list of texts, millions of them, as sorted 64-bit hashes, and whether a text is one of them.
//
// Held in memory: eight bytes for each entry, and half a byte for where the hashes of each prefix begin. With
// n entries, a text that is not listed is taken for one with a probability of n / 2^64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "buffer.hpp"

namespace krill::url {

// Prefixes have as many bits as leave about this many hashes to each.
inline constexpr size_t kHashesPerPrefix = 8;

class HashList {
 public:
  // With room for so many entries.
  explicit HashList(size_t entries) : hashes_(entries) {}

  // Before `finish`. Throws std::length_error if there is no room left.
  void add(std::string_view entry);
  void finish();

  size_t size() const { return size_; }
  bool has(std::string_view text) const { return has(hash_of(text)); }
  bool has(uint64_t hash) const;
  // Of all entries, in whatever order they came.
  uint64_t fingerprint() const;

  static uint64_t hash_of(std::string_view text);

 private:
  size_t prefix_of(uint64_t hash) const { return bits_ == 0 ? 0 : static_cast<size_t>(hash >> (64 - bits_)); }

  Buffer<uint64_t> hashes_;
  std::vector<uint32_t> starts_;
  size_t size_ = 0;
  unsigned bits_ = 0;
};

}  // namespace krill::url
