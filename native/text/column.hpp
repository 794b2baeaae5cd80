// A column of documents as Arrow lays it out: n + 1 offsets into one run of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "check.hpp"

namespace krill::text {

struct TextColumn {
  const int64_t* offsets;  // rows + 1 of them
  size_t rows;
  const uint8_t* data;
  size_t data_size;

  const uint8_t* begin(size_t row) const {
    check_index(row, rows);
    return data + offsets[row];
  }
  size_t size(size_t row) const {
    check_index(row, rows);
    return static_cast<size_t>(offsets[row + 1] - offsets[row]);
  }
  // Bytes from a document's begin on that may be read.
  size_t readable(size_t row) const { return data_size - static_cast<size_t>(offsets[row]); }
  size_t total() const { return static_cast<size_t>(offsets[rows] - offsets[0]); }

  // Offsets come from outside: nothing is read through them before this has passed. A document's length
  // must also fit uint32, in which lengths and counts of characters are kept.
  void check() const {
    bool falls = offsets[0] < 0;
    bool huge = false;
    for (size_t row = 0; row < rows; ++row) {
      falls |= offsets[row + 1] < offsets[row];
      // Unsigned, so that the difference of hostile offsets can't overflow.
      huge |= static_cast<uint64_t>(offsets[row + 1]) - static_cast<uint64_t>(offsets[row]) >= 0xffffffffu;
    }
    if (falls) throw std::invalid_argument("offsets must begin at 0 or above and never fall");
    if (static_cast<uint64_t>(offsets[rows]) > data_size)
      throw std::invalid_argument("offsets reach beyond the end of the data");
    if (huge) throw std::invalid_argument("a document is 4 GiB or longer");
  }
};

}  // namespace krill::text
