// Which token a text is: a hash table over tokens that lie in flat arrays.
//
// In: tokens. Out: look-ups. Held in memory: 8 to 16 bytes a token; the tokens belong to the caller.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "bpe/word_hash.hpp"

namespace krill::tokenizer {

// `Tokens` gives the bytes of token i as tokens[i], and outlives the calls.
class TokenIndex {
 public:
  static constexpr uint32_t kNoToken = 0xffffffff;

  // Room for `count` tokens.
  explicit TokenIndex(size_t count) : slots_(std::bit_ceil(2 * count + 2), kNoToken) {}

  // Adds a token; one with the same bytes is replaced, and returned.
  template <class Tokens>
  uint32_t insert(const Tokens& tokens, uint32_t token) {
    uint32_t& slot = slots_[slot_of(tokens, tokens[token])];
    const uint32_t before = slot;
    slot = token;
    return before;
  }

  template <class Tokens>
  uint32_t find(const Tokens& tokens, std::span<const uint8_t> text) const {
    return slots_[slot_of(tokens, text)];
  }

 private:
  template <class Tokens>
  size_t slot_of(const Tokens& tokens, std::span<const uint8_t> text) const {
    const size_t mask = slots_.size() - 1;
    size_t slot = bpe::hash_word(text.data(), text.size()) & mask;
    while (slots_[slot] != kNoToken) {
      const std::span<const uint8_t> found = tokens[slots_[slot]];
      if (found.size() == text.size() && std::memcmp(found.data(), text.data(), text.size()) == 0) break;
      slot = (slot + 1) & mask;
    }
    return slot;
  }

  std::vector<uint32_t> slots_;  // open addressing, half full at most
};

}  // namespace krill::tokenizer
