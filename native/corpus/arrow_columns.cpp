#include "corpus/arrow_columns.hpp"

#include <cstring>
#include <stdexcept>

namespace krill::corpus {

namespace {

// 0 for formats that are not plain numbers.
int64_t number_width(char format) {
  switch (format) {
    case 'b':  // a bit counts as a byte
    case 'c':
    case 'C': return 1;
    case 's':
    case 'S':
    case 'e': return 2;
    case 'i':
    case 'I':
    case 'f': return 4;
    case 'l':
    case 'L':
    case 'g': return 8;
    default: return 0;
  }
}

template <class Offset>
void add_strings(const ArrowArray& column, int64_t* total) {
  const auto* offsets = static_cast<const unsigned char*>(column.buffers[1]);
  const auto* valid = column.null_count == 0 ? nullptr : static_cast<const uint8_t*>(column.buffers[0]);
  if (offsets == nullptr) throw std::invalid_argument("a column of strings without offsets");
  offsets += static_cast<size_t>(column.offset) * sizeof(Offset);
  Offset start;  // a file of others may put them anywhere: they are copied, not cast
  std::memcpy(&start, offsets, sizeof start);
  for (int64_t row = 0; row < column.length; ++row) {
    Offset end;
    std::memcpy(&end, offsets + static_cast<size_t>(row + 1) * sizeof end, sizeof end);
    const int64_t bit = column.offset + row;
    const bool there = valid == nullptr || (valid[bit / 8] >> (bit % 8) & 1) != 0;
    total[row] += static_cast<int64_t>(sizeof end);
    if (there) total[row] += static_cast<int64_t>(end) - static_cast<int64_t>(start);
    start = end;
  }
}

bool add_column(const ArrowSchema& schema, const ArrowArray& column, int64_t* total) {
  // What is folded into a dictionary has the format of its indices.
  if (schema.dictionary != nullptr || schema.format[0] == '\0' || schema.format[1] != '\0') return false;
  const char format = schema.format[0];
  if (const int64_t width = number_width(format)) {
    for (int64_t row = 0; row < column.length; ++row) total[row] += width;
  } else if (format == 'U' || format == 'Z') {
    add_strings<int64_t>(column, total);
  } else if (format == 'u' || format == 'z') {
    add_strings<int32_t>(column, total);
  } else {
    return false;
  }
  return true;
}

}  // namespace

std::vector<size_t> add_row_bytes(const ArrowSchema& schema, const ArrowArray& batch, int64_t* total) {
  std::vector<size_t> others;
  if (batch.length == 0) return others;
  if (batch.offset != 0 || batch.n_children != schema.n_children)
    throw std::invalid_argument("a batch that is not the export of one");
  for (int64_t at = 0; at < batch.n_children; ++at) {
    const ArrowArray& column = *batch.children[at];
    if (column.length != batch.length) throw std::invalid_argument("columns of different lengths");
    if (!add_column(*schema.children[at], column, total)) others.push_back(static_cast<size_t>(at));
  }
  return others;
}

}  // namespace krill::corpus
