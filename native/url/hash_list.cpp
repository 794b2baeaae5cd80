#include "url/hash_list.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "dedup/hash.hpp"

namespace krill::url {

uint64_t HashList::hash_of(std::string_view text) {
  return dedup::hash_bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size(), 0).low;
}

void HashList::add(std::string_view entry) {
  if (size_ == hashes_.size()) throw std::length_error("the list has more entries than were counted");
  hashes_[size_++] = hash_of(entry);
}

void HashList::finish() {
  if (size_ > std::numeric_limits<uint32_t>::max())
    throw std::length_error("the list has 2^32 entries or more");
  uint64_t* const first = hashes_.data();
  std::sort(first, first + size_);
  size_ = static_cast<size_t>(std::unique(first, first + size_) - first);
  hashes_.trim(size_);
  bits_ = static_cast<unsigned>(std::bit_width(size_ / kHashesPerPrefix));
  starts_.assign((size_t{1} << bits_) + 1, 0);
  for (size_t at = 0; at < size_; ++at) ++starts_[prefix_of(hashes_[at]) + 1];
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
}

uint64_t HashList::fingerprint() const {
  return dedup::hash_bytes(reinterpret_cast<const uint8_t*>(hashes_.data()), size_ * sizeof(uint64_t), 0).low;
}

bool HashList::has(uint64_t hash) const {
  if (size_ == 0) return false;
  const size_t prefix = prefix_of(hash);
  const uint64_t* const hashes = hashes_.data();
  return std::binary_search(hashes + starts_[prefix], hashes + starts_[prefix + 1], hash);
}

}  // namespace krill::url
