// The texts of a vocabulary as a double array: one load for each byte that is matched.
//
// In: tokens. Out: walks from the root, which pass by all tokens that a text begins with. Held in memory: 8
// bytes for each beginning that a token has, shared by all tokens with it, and little more: 4.1 MB for the
// 256,000 tokens of Gemma 2. Nothing changes after construction.
//
// A node is one unit. The unit of its child for a byte stands at its base XOR that byte, so all children lie
// in one block of 256 units. No two nodes have the same base: a unit is a node's child if its label is the
// byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "models/token_arrays.hpp"

namespace krill::models {

class ByteTrie {
 public:
  static constexpr uint32_t kNoToken = 0xffffffff;
  static constexpr size_t kMostTokens = (size_t{1} << 23) - 2;

  // Of equal tokens the last one counts. Throws std::invalid_argument for arrays that make no sense.
  explicit ByteTrie(const TokenArrays& tokens);

  // Where a walk has come to. Any unit is a state; kNowhere leads on to nothing.
  using State = uint64_t;
  static constexpr State kNowhere = 0;

  State root() const { return root_; }

  // Goes on by one byte; false if no token begins so, and the state is not to be used any more.
  bool step(State& state, uint8_t byte) const {
    const size_t at = static_cast<uint32_t>(state) ^ byte;
    state = units_[at];
    return state >> kUsedShift == (uint64_t{byte} << 1 | 1);
  }

  // The token that ends here, or kNoToken.
  static uint32_t token(State state) { return (static_cast<uint32_t>(state >> 32) & kTokenMask) - 1; }

  // The state behind all of some bytes; kNowhere if no token begins so.
  State walk(std::span<const uint8_t> bytes) const {
    State state = root_;
    for (const uint8_t byte : bytes)
      if (!step(state, byte)) return kNowhere;
    return state;
  }

  // The token that is exactly these bytes, which are not none, or kNoToken.
  uint32_t find(std::span<const uint8_t> bytes) const { return token(walk(bytes)); }

  size_t held_bytes() const { return units_.size() * sizeof(uint64_t); }

 private:
  class Builder;

  // From the highest bit: 8 of label, 1 that says that the unit is used, 23 of token + 1, 32 of base.
  static constexpr unsigned kUsedShift = 55;
  static constexpr uint32_t kTokenMask = (uint32_t{1} << 23) - 1;

  ByteTrie(const TokenArrays& tokens, std::vector<uint64_t>&& units);

  State root_;
  Buffer<uint64_t> units_;  // in huge pages, since a walk jumps about in it
};

}  // namespace krill::models
