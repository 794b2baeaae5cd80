// The page headers of a Parquet column. A header states the size of its page, and Arrow allocates that before
// it checks whether the file has so much: here the size is checked against the column chunk.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "corpus/thrift.hpp"

namespace krill::corpus {

struct PageHeader {
  int64_t kind;
  int64_t stored;
  int64_t decoded;
  int64_t values;
  size_t bytes;  // of the header itself
};

// The header that the bytes begin with; nothing if they end before it does. Throws DamagedThrift.
std::optional<PageHeader> parse_page_header(const uint8_t* data, size_t size);

// The position of the first page in [start, end) of an open file that is invalid or reaches beyond the end,
// or -1. Pages are checked until they have `values` values: bytes after those are not read by anybody.
int64_t find_damaged_page(int file, int64_t start, int64_t end, int64_t values);

}  // namespace krill::corpus
