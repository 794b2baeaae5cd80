#include "dedup/hash.hpp"

#include <bit>
#include <cstring>

namespace krill::dedup {
namespace {

constexpr uint64_t kFirst = 0x87c37b91114253d5u;
constexpr uint64_t kSecond = 0x4cf5ad432745937fu;

// The hash reads words in little-endian order whatever the machine's own is.
uint64_t load_word(const uint8_t* at) {
  uint64_t word;
  std::memcpy(&word, at, sizeof word);
  if constexpr (std::endian::native == std::endian::big) word = __builtin_bswap64(word);
  return word;
}

uint64_t scramble_low(uint64_t word) { return std::rotl(word * kFirst, 31) * kSecond; }
uint64_t scramble_high(uint64_t word) { return std::rotl(word * kSecond, 33) * kFirst; }

uint64_t finish(uint64_t word) {
  word = (word ^ (word >> 33)) * 0xff51afd7ed558ccdu;
  word = (word ^ (word >> 33)) * 0xc4ceb9fe1a85ec53u;
  return word ^ (word >> 33);
}

}  // namespace

Hash hash_bytes(const uint8_t* data, size_t size, uint32_t seed) {
  uint64_t low = seed;
  uint64_t high = seed;
  const size_t blocks = size / 16;
  for (size_t block = 0; block < blocks; ++block) {
    const uint8_t* at = data + block * 16;
    low = (std::rotl(low ^ scramble_low(load_word(at)), 27) + high) * 5 + 0x52dce729;
    high = (std::rotl(high ^ scramble_high(load_word(at + 8)), 31) + low) * 5 + 0x38495ab5;
  }
  if (const size_t rest = size % 16; rest != 0) {
    uint8_t tail[16] = {};  // zeros scramble to zero, so a padded tail is the reference's tail
    std::memcpy(tail, data + blocks * 16, rest);
    low ^= scramble_low(load_word(tail));
    high ^= scramble_high(load_word(tail + 8));
  }
  low ^= size;
  high ^= size;
  low += high;
  high += low;
  low = finish(low);
  high = finish(high);
  low += high;
  high += low;
  return {low, high};
}

Buffer<Hash> hash_documents(const text::TextColumn& documents, uint32_t seed) {
  Buffer<Hash> hashes(documents.rows);
  for (size_t row = 0; row < documents.rows; ++row)
    hashes[row] = hash_bytes(documents.begin(row), documents.size(row), seed);
  return hashes;
}

}  // namespace krill::dedup
