// A hash table of first occurrences in one document: of words, n-grams or lines, each known by its number.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "growing_buffer.hpp"

namespace krill::quality {

// Three slots of four bytes for every two items: a number, and as many bits of the hash as fit, so that few
// other items are compared. The caller compares the items of two numbers: results never depend on hashes.
class IndexTable {
 public:
  // Clears the table and makes room for `count` distinct items, whose numbers are below `numbers`.
  void reset(size_t count, size_t numbers) {
    std::ranges::fill(slots_.resize_for_overwrite(count + count / 2 + 2), 0);
    number_mask_ = static_cast<uint32_t>((uint64_t{1} << std::bit_width(numbers)) - 1);
  }

  // The first number that was given with an equal item, which may be `number` itself.
  template <class Equal>
  uint32_t first_of(uint64_t hash, uint32_t number, Equal equal) {
    const uint32_t tag = static_cast<uint32_t>(hash) & ~number_mask_;
    size_t slot =
        (hash >> 33) * slots_.size() >> 31;  // there are less than 2^33, for words are less than 2^32
    for (; slots_[slot] != 0; slot = slot + 1 == slots_.size() ? 0 : slot + 1) {
      const uint32_t found = slots_[slot];
      if ((found & ~number_mask_) == tag && equal((found & number_mask_) - 1))
        return (found & number_mask_) - 1;
    }
    slots_[slot] = tag | (number + 1);
    return number;
  }

 private:
  GrowingBuffer<uint32_t> slots_;
  uint32_t number_mask_ = 0;
};

}  // namespace krill::quality
