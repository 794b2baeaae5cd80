#include "url/hash_list.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "dedup/hash.hpp"

namespace krill::url {

namespace {

constexpr unsigned kDigitBits = 8;
constexpr size_t kDigits = size_t{1} << kDigitBits;
constexpr unsigned kFirstShift = 64 - kDigitBits;
// Fewer are compared with each other.
constexpr size_t kFew = 128;

// In place, by the digit at `shift`, then each part by the digits behind it: a third of what comparing takes.
void sort_hashes(std::span<uint64_t> hashes, unsigned shift) {
  if (hashes.size() <= kFew) {
    std::sort(hashes.begin(), hashes.end());
    return;
  }
  const auto digit_of = [shift](uint64_t hash) { return static_cast<size_t>(hash >> shift) % kDigits; };
  std::array<size_t, kDigits> ends{};
  for (const uint64_t hash : hashes) ++ends[digit_of(hash)];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::array<size_t, kDigits> next{};
  std::copy(ends.begin(), ends.end() - 1, next.begin() + 1);
  const std::array<size_t, kDigits> begins = next;
  for (size_t digit = 0; digit < kDigits; ++digit) {
    while (next[digit] < ends[digit]) {
      uint64_t hash = hashes[next[digit]];
      // Each takes the place of another, until one belongs here.
      for (size_t own = digit_of(hash); own != digit; own = digit_of(hash))
        std::swap(hash, hashes[next[own]++]);
      hashes[next[digit]++] = hash;
    }
  }
  if (shift == 0) return;
  for (size_t digit = 0; digit < kDigits; ++digit)
    sort_hashes(hashes.subspan(begins[digit], ends[digit] - begins[digit]), shift - kDigitBits);
}

}  // namespace

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
  sort_hashes({first, size_}, kFirstShift);
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
