// A vocabulary from outside: tokens by id in flat arrays, checked before anything is read through them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "bpe/vocabulary.hpp"
#include "check.hpp"

namespace krill::models {

// Tokens without the flag kWord, and empty ones, are never found in a text: ids that are not in use, or texts
// that no pre-tokenizer lets through.
struct TokenArrays {
  std::span<const uint8_t> bytes;
  std::span<const int64_t> offsets;  // one more than there are ids
  std::span<const uint8_t> flags;    // bpe::TokenFlag, one for each id

  size_t size() const { return flags.size(); }
  size_t length(size_t id) const {
    return (flags[id] & bpe::kWord) == 0 ? 0 : static_cast<size_t>(offsets[id + 1] - offsets[id]);
  }
  std::span<const uint8_t> operator[](size_t id) const {
    return bytes.subspan(static_cast<size_t>(offsets[id]), length(id));
  }

  // Throws std::invalid_argument for inconsistent arrays; `most` is how many ids there may be.
  void check(size_t most) const {
    expect(!offsets.empty() && offsets.size() - 1 == flags.size(),
           "there must be one flag for each token, and one offset more");
    expect(size() <= most && bytes.size() < std::numeric_limits<uint32_t>::max(),
           "the vocabulary is too large");
    expect(offsets.front() == 0 && static_cast<uint64_t>(offsets.back()) == bytes.size(),
           "offsets must begin at 0 and end with the bytes");
    for (size_t id = 0; id < size(); ++id) expect(offsets[id] <= offsets[id + 1], "offsets must never fall");
  }
};

}  // namespace krill::models
