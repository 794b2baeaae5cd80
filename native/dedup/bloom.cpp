#include "dedup/bloom.hpp"

#include <limits>
#include <stdexcept>

#include "dedup/shingles.hpp"

namespace krill::dedup {
namespace {

constexpr size_t kWords = BloomFilter::kBlockBytes / sizeof(uint64_t);
constexpr size_t kBlocksAhead = 16;
constexpr unsigned kBlockPlaceBits = 9;                    // a position among 512
constexpr unsigned kPlacesPerWord = 64 / kBlockPlaceBits;  // positions from one word of a hash

size_t words_for(size_t blocks, unsigned bits) {
  if (blocks == 0 || blocks > std::numeric_limits<size_t>::max() / BloomFilter::kBlockBytes)
    throw std::invalid_argument("a filter has at least one block");
  if (bits == 0 || bits > BloomFilter::kMostBits) throw std::invalid_argument("a hash sets 1 to 64 bits");
  return blocks * kWords;
}

}  // namespace

BloomFilter::BloomFilter(size_t blocks, unsigned bits)
    : blocks_(blocks), bits_(bits), words_(Buffer<uint64_t>::zeros(words_for(blocks, bits))) {}

uint64_t* BloomFilter::block_of(const Hash& hash) {
  using Wide = unsigned __int128;
  return words_.data() + static_cast<size_t>((static_cast<Wide>(hash.low) * blocks_) >> 64) * kWords;
}

void BloomFilter::insert(const Hash* hashes, size_t count, uint8_t* first) {
  for (size_t i = 0; i < count; ++i) {
    if (i + kBlocksAhead < count) __builtin_prefetch(block_of(hashes[i + kBlocksAhead]), 1);
    uint64_t* block = block_of(hashes[i]);
    // Positions are drawn one by one, not by steps of equal length, which give only 2^17 different sets.
    uint64_t places = hashes[i].high;
    bool seen = true;
    for (unsigned bit = 0; bit < bits_; ++bit) {
      if (bit != 0 && bit % kPlacesPerWord == 0) places = mix64(hashes[i].high + bit);
      const uint64_t place = places % (1u << kBlockPlaceBits);
      places >>= kBlockPlaceBits;
      const uint64_t mask = uint64_t{1} << (place % 64);
      seen &= (block[place / 64] & mask) != 0;
      block[place / 64] |= mask;
    }
    first[i] = !seen;
  }
}

}  // namespace krill::dedup
