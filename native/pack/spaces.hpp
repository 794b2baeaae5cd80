// Rows by their free room: which row has the least room that still fits a piece, and of several the one that
// had that much room first.
//
// Holds four bytes and a little more than one bit for each possible amount of room, and four bytes for each
// row. Amounts that never occur are never touched.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "buffer.hpp"

namespace krill::pack {

// A set of numbers below `size`, in which the next member from any number on is found in a step per level of
// 64-fold width.
class NumberSet {
 public:
  explicit NumberSet(size_t size) {
    do {
      size = (size + 63) / 64;
      levels_.push_back(Buffer<uint64_t>::zeros(size));
    } while (size > 1);
  }

  bool has(size_t number) const { return levels_[0][number / 64] >> number % 64 & 1; }

  void add(size_t number) {
    for (Buffer<uint64_t>& level : levels_) {
      level[number / 64] |= uint64_t{1} << number % 64;
      number /= 64;
    }
  }

  void remove(size_t number) {
    for (Buffer<uint64_t>& level : levels_) {
      level[number / 64] &= ~(uint64_t{1} << number % 64);
      if (level[number / 64] != 0) return;
      number /= 64;
    }
  }

  // The smallest member that is not below `number`.
  std::optional<size_t> from(size_t number) const {
    size_t level = 0;
    for (;; ++level, number = number / 64 + 1) {  // up, until something lies to the right
      if (level == levels_.size() || number / 64 >= levels_[level].size()) return std::nullopt;
      const uint64_t right = levels_[level][number / 64] >> number % 64 << number % 64;
      if (right == 0) continue;
      number = number / 64 * 64 + static_cast<size_t>(std::countr_zero(right));
      break;
    }
    while (level-- > 0)  // down, to the first member there
      number = number * 64 + static_cast<size_t>(std::countr_zero(levels_[level][number]));
    return number;
  }

 private:
  std::vector<Buffer<uint64_t>> levels_;
};

class Spaces {
 public:
  // Room is below `width`; there are at most `rows` rows.
  Spaces(size_t width, size_t rows) : occupied_(width), last_(width), next_(rows) {}

  // The least room that is enough.
  std::optional<size_t> enough(size_t length) const { return occupied_.from(length); }

  // Removes and returns the row that was first to have exactly this much room.
  uint32_t take(size_t room) {
    const uint32_t last = last_[room];
    const uint32_t first = next_[last];
    if (first == last) {
      occupied_.remove(room);
    } else {
      next_[last] = next_[first];
    }
    return first;
  }

  void put(size_t room, uint32_t row) {
    if (occupied_.has(room)) {
      const uint32_t last = last_[room];
      next_[row] = next_[last];
      next_[last] = row;
    } else {
      occupied_.add(room);
      next_[row] = row;
    }
    last_[room] = row;
  }

 private:
  NumberSet occupied_;
  Buffer<uint32_t> last_;  // of each queue, which is a ring: the last one is followed by the first
  Buffer<uint32_t> next_;
};

}  // namespace krill::pack
