// The pages of a Parquet column, by their headers. A header says how long its page is, and Arrow makes room
// for that before it looks whether there is so much: it is held to the column that the page is in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "text/thrift.hpp"

namespace krill::text {

struct PageHeader {
  std::int64_t kind;
  std::int64_t stored;
  std::int64_t decoded;
  std::int64_t values;
  std::size_t bytes;  // of the header itself
};

// The header that the bytes begin with; nothing if they end before it does. Throws DamagedThrift.
std::optional<PageHeader> parse_page_header(const std::uint8_t* data, std::size_t size);

// The position of the first page in [start, end) of an open file that is none or reaches beyond, or -1. Pages
// are looked at until they have `values`: what may follow is nobody's.
std::int64_t find_damaged_page(int file, std::int64_t start, std::int64_t end, std::int64_t values);

}  // namespace krill::text
