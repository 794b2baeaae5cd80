#include "pack/best_fit.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "pack/spaces.hpp"

namespace krill::pack {
namespace {

// One number for each piece: in the upper half what it is sorted by, later its row; below, its document.
using Keys = Buffer<uint64_t>;

uint64_t joined(uint32_t upper, size_t document) { return uint64_t{upper} << 32 | document; }
uint32_t upper(uint64_t key) { return static_cast<uint32_t>(key >> 32); }
uint32_t document(uint64_t key) { return static_cast<uint32_t>(key); }

Keys longest_first(const uint32_t* lengths, size_t documents, uint32_t width) {
  Keys keys(documents);
  size_t pieces = 0;
  for (size_t i = 0; i < documents; ++i) {
    const uint32_t length = lengths[i] % width;
    if (length != 0) keys[pieces++] = joined(width - length, i);
  }
  keys.trim(pieces);
  std::sort(keys.data(), keys.data() + pieces);
  return keys;
}

// Puts each piece's row in the place of its length; returns how many rows there are.
size_t choose_rows(Keys& keys, uint32_t width) {
  Spaces spaces(width, keys.size());
  uint32_t rows = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint32_t length = width - upper(keys[i]);
    const std::optional<size_t> room = spaces.enough(length);
    const uint32_t row = room ? spaces.take(*room) : rows++;
    keys[i] = joined(row, document(keys[i]));
    const size_t left = room.value_or(width) - length;
    if (left != 0) spaces.put(left, row);
  }
  return rows;
}

}  // namespace

FittedRows fit_remainders(const uint32_t* lengths, size_t documents, uint32_t width) {
  if (width == 0) throw std::invalid_argument("a row has at least one token");
  if (documents > std::numeric_limits<uint32_t>::max()) throw std::invalid_argument("too many documents");
  Keys keys = longest_first(lengths, documents, width);
  const size_t rows = choose_rows(keys, width);
  FittedRows fitted{Buffer<uint32_t>::zeros(rows + 1), Buffer<uint32_t>(keys.size())};
  // Counts stand two places to the right: added up, the number after a row is where its next document goes,
  // and once it is full, where it ends.
  for (size_t i = 0; i < keys.size(); ++i)
    if (const size_t row = upper(keys[i]); row + 2 <= rows) ++fitted.offsets[row + 2];
  for (size_t row = 2; row <= rows; ++row) fitted.offsets[row] += fitted.offsets[row - 1];
  for (size_t i = 0; i < keys.size(); ++i)
    fitted.documents[fitted.offsets[upper(keys[i]) + 1]++] = document(keys[i]);
  return fitted;
}

}  // namespace krill::pack
