// Hashing words: short ones live in three machine words, so that counting and looking up never walk bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace krill::bpe {

inline uint64_t mix64(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

// A word of at most 24 bytes, padded with zeros; its length is kept beside it.
struct ShortWord {
  static constexpr size_t kLongest = 24;
  std::array<uint64_t, 3> lanes{};

  // Spelt out: a call of memcmp would cost more than the comparison.
  friend bool operator==(const ShortWord& a, const ShortWord& b) {
    return ((a.lanes[0] ^ b.lanes[0]) | (a.lanes[1] ^ b.lanes[1]) | (a.lanes[2] ^ b.lanes[2])) == 0;
  }

  // `limit` is where readable memory ends: near it the bytes are copied one word at a time.
  static ShortWord load(const uint8_t* word, size_t size, const uint8_t* limit) {
    ShortWord result;
    if (static_cast<size_t>(limit - word) >= kLongest) {
      std::memcpy(result.lanes.data(), word, kLongest);
      for (size_t lane = 0; lane < 3; ++lane) result.lanes[lane] &= kMasks[size][lane];
    } else {
      std::memcpy(result.lanes.data(), word, size);
    }
    return result;
  }

  uint64_t hash(size_t size) const {
    const uint64_t first = mix64(lanes[0] ^ 0x9e3779b97f4a7c15u, lanes[1] ^ 0xc2b2ae3d27d4eb4fu ^ size);
    return mix64(first ^ lanes[2], 0xff51afd7ed558ccdu ^ size);
  }

 private:
  // Which bytes of each lane belong to a word, by its size: a table, since sizes can't be predicted.
  static constexpr auto kMasks = [] {
    std::array<std::array<uint64_t, 3>, kLongest + 1> masks{};
    for (size_t size = 0; size <= kLongest; ++size)
      for (size_t byte = 0; byte < size; ++byte) masks[size][byte / 8] |= uint64_t{0xff} << (byte % 8 * 8);
    return masks;
  }();
};

inline uint64_t hash_word(const uint8_t* word, size_t size) {
  if (size <= ShortWord::kLongest) return ShortWord::load(word, size, word + size).hash(size);
  uint64_t state = 0x2545f4914f6cdd1du ^ size;
  size_t at = 0;
  for (; at + 8 <= size; at += 8) {
    uint64_t lane;
    std::memcpy(&lane, word + at, 8);
    state = mix64(state ^ lane, 0x9e3779b97f4a7c15u);
  }
  uint64_t rest = 0;
  std::memcpy(&rest, word + at, size - at);
  return mix64(state ^ rest, 0xc2b2ae3d27d4eb4fu ^ size);
}

}  // namespace krill::bpe
