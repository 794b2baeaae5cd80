// A keyed permutation of the numbers below `count`: computed, never stored.
//
// The same function as krill.pack.permutation, which is its reference: a Feistel network over the smallest
// square of a power of two that holds `count`; a result of `count` or above goes through again, fewer than
// four times on average. Holds six round keys.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace krill::loading {

class Permutation {
 public:
  Permutation(uint64_t count, const uint64_t* key, size_t key_size) : count_(count) {
    const int bits = std::bit_width(count > 2 ? count - 1 : uint64_t{1});
    half_ = std::max(1, (bits + 1) / 2);
    mask_ = (uint64_t{1} << half_) - 1;
    uint64_t state = 0;
    for (size_t i = 0; i < key_size; ++i) state = mixed(state + key[i] + kGolden);
    for (size_t i = 0; i < kRounds; ++i) round_keys_[i] = mixed(state + (i + 1) * kGolden);
  }

  // Where `number` goes, which must be below `count`.
  uint64_t operator()(uint64_t number) const {
    do number = forward(number);
    while (number >= count_);
    return number;
  }

  // The inverse: which number goes to `place`.
  uint64_t inverse(uint64_t place) const {
    do place = backward(place);
    while (place >= count_);
    return place;
  }

 private:
  static constexpr size_t kRounds = 6;
  static constexpr uint64_t kGolden = 0x9E3779B97F4A7C15u;

  // The finalizer of SplitMix64.
  static uint64_t mixed(uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
  }

  uint64_t forward(uint64_t number) const {
    uint64_t left = number >> half_;
    uint64_t right = number & mask_;
    for (const uint64_t key : round_keys_) {
      const uint64_t next = left ^ (mixed(right ^ key) & mask_);
      left = right;
      right = next;
    }
    return left << half_ | right;
  }

  uint64_t backward(uint64_t place) const {
    uint64_t left = place >> half_;
    uint64_t right = place & mask_;
    for (size_t i = kRounds; i-- > 0;) {
      const uint64_t before = right ^ (mixed(left ^ round_keys_[i]) & mask_);
      right = left;
      left = before;
    }
    return left << half_ | right;
  }

  uint64_t count_;
  int half_;
  uint64_t mask_;
  std::array<uint64_t, kRounds> round_keys_;
};

}  // namespace krill::loading
