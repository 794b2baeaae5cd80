// A keyed permutation of the numbers below `count`: computed, never stored.
//
// The same function as krill.pack.permutation, which is its reference: a Feistel network over the smallest
// square of a power of two that holds `count`; what lands at `count` or above is sent through again, fewer
// than four times on average. Holds six round keys.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace krill {

class Permutation {
 public:
  Permutation(std::uint64_t count, const std::uint64_t* key, std::size_t key_size) : count_(count) {
    const int bits = std::bit_width(count > 2 ? count - 1 : std::uint64_t{1});
    half_ = std::max(1, (bits + 1) / 2);
    mask_ = (std::uint64_t{1} << half_) - 1;
    std::uint64_t state = 0;
    for (std::size_t i = 0; i < key_size; ++i) state = mixed(state + key[i] + kGolden);
    for (std::size_t i = 0; i < kRounds; ++i) round_keys_[i] = mixed(state + (i + 1) * kGolden);
  }

  // Where `number` goes, which must be below `count`.
  std::uint64_t operator()(std::uint64_t number) const {
    do number = forward(number);
    while (number >= count_);
    return number;
  }

  // Which number goes to `place`.
  std::uint64_t inverse(std::uint64_t place) const {
    do place = backward(place);
    while (place >= count_);
    return place;
  }

 private:
  static constexpr std::size_t kRounds = 6;
  static constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15u;

  // The finalizer of SplitMix64.
  static std::uint64_t mixed(std::uint64_t value) {
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
  }

  std::uint64_t forward(std::uint64_t number) const {
    std::uint64_t left = number >> half_;
    std::uint64_t right = number & mask_;
    for (const std::uint64_t key : round_keys_) {
      const std::uint64_t next = left ^ (mixed(right ^ key) & mask_);
      left = right;
      right = next;
    }
    return left << half_ | right;
  }

  std::uint64_t backward(std::uint64_t place) const {
    std::uint64_t left = place >> half_;
    std::uint64_t right = place & mask_;
    for (std::size_t i = kRounds; i-- > 0;) {
      const std::uint64_t before = right ^ (mixed(left ^ round_keys_[i]) & mask_);
      right = left;
      left = before;
    }
    return left << half_ | right;
  }

  std::uint64_t count_;
  int half_;
  std::uint64_t mask_;
  std::array<std::uint64_t, kRounds> round_keys_;
};

}  // namespace krill
