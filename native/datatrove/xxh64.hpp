// XXH64 with the seed 0: the 64-bit hash that datatrove's signatures are made of.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace krill::datatrove {

namespace xxh64_parts {

inline constexpr uint64_t kPrimes[5] = {0x9e3779b185ebca87u, 0xc2b2ae3d27d4eb4fu, 0x165667b19e3779f9u,
                                        0x85ebca77c2b2ae63u, 0x27d4eb2f165667c5u};

template <class Word>
uint64_t read(const uint8_t* bytes) {
  static_assert(std::endian::native == std::endian::little);
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

inline uint64_t round(uint64_t lane, uint64_t word) {
  return std::rotl(lane + word * kPrimes[1], 31) * kPrimes[0];
}

inline uint64_t merge(uint64_t hash, uint64_t lane) {
  return (hash ^ round(0, lane)) * kPrimes[0] + kPrimes[3];
}

}  // namespace xxh64_parts

inline uint64_t xxh64(const uint8_t* bytes, size_t size) {
  using namespace xxh64_parts;
  const uint8_t* const end = bytes + size;
  uint64_t hash = kPrimes[4];
  if (size >= 32) {
    uint64_t lanes[4] = {kPrimes[0] + kPrimes[1], kPrimes[1], 0, 0 - kPrimes[0]};
    for (; end - bytes >= 32; bytes += 32)
      for (size_t lane = 0; lane < 4; ++lane)
        lanes[lane] = round(lanes[lane], read<uint64_t>(bytes + 8 * lane));
    hash =
        std::rotl(lanes[0], 1) + std::rotl(lanes[1], 7) + std::rotl(lanes[2], 12) + std::rotl(lanes[3], 18);
    for (const uint64_t lane : lanes) hash = merge(hash, lane);
  }
  hash += size;
  for (; end - bytes >= 8; bytes += 8)
    hash = std::rotl(hash ^ round(0, read<uint64_t>(bytes)), 27) * kPrimes[0] + kPrimes[3];
  if (end - bytes >= 4) {
    hash = std::rotl(hash ^ read<uint32_t>(bytes) * kPrimes[0], 23) * kPrimes[1] + kPrimes[2];
    bytes += 4;
  }
  for (; bytes < end; ++bytes) hash = std::rotl(hash ^ *bytes * kPrimes[4], 11) * kPrimes[0];
  hash = (hash ^ (hash >> 33)) * kPrimes[1];
  hash = (hash ^ (hash >> 29)) * kPrimes[2];
  return hash ^ (hash >> 32);
}

}  // namespace krill::datatrove
