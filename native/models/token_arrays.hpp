// A vocabulary from outside: texts in flat arrays, checked before anything is read through them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "check.hpp"

namespace krill::models {

struct TokenArrays {
  std::span<const uint8_t> bytes;
  std::span<const int64_t> offsets;  // one more than there are tokens

  size_t size() const { return offsets.size() - 1; }
  std::span<const uint8_t> operator[](size_t token) const {
    return bytes.subspan(static_cast<size_t>(offsets[token]), length(token));
  }
  size_t length(size_t token) const { return static_cast<size_t>(offsets[token + 1] - offsets[token]); }

  // Throws std::invalid_argument for inconsistent arrays; `most` is how many tokens there may be.
  void check(size_t most) const {
    expect(!offsets.empty(), "offsets must hold one number more than there are tokens");
    expect(size() <= most && bytes.size() < std::numeric_limits<uint32_t>::max(),
           "the vocabulary is too large");
    expect(offsets.front() == 0 && static_cast<uint64_t>(offsets.back()) == bytes.size(),
           "offsets must begin at 0 and end with the bytes");
    for (size_t token = 0; token < size(); ++token)
      expect(offsets[token] <= offsets[token + 1], "offsets must never fall");
  }
};

}  // namespace krill::models
