// Drives the readers of Parquet footers and page headers with whatever the input is: it is refused, or each
// row group has every column, and a header lies in its bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "fuzz/kernels_fuzz.hpp"
#include "text/parquet_footer.hpp"
#include "text/parquet_pages.hpp"

inline void fuzz_parquet(const std::uint8_t* data, std::size_t size) {
  using krill::fuzz::expect;
  try {
    const krill::text::ParquetFooter footer = krill::text::parse_parquet_footer(data, size);
    const std::size_t cells = footer.rows.size() * footer.columns.size();
    expect(footer.types.size() == cells && footer.compressed.size() == cells, "footer: cells");
    expect(footer.columns.size() <= size && cells <= size, "footer: more columns than bytes");
  } catch (const krill::text::DamagedThrift&) {
  }
  try {
    const auto page = krill::text::parse_page_header(data, size);
    if (page) expect(page->bytes <= size && page->stored >= 0 && page->decoded >= 0, "page: header");
  } catch (const krill::text::DamagedThrift&) {
  }
}
