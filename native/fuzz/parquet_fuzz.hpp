// Drives the readers of Parquet footers and page headers with whatever the input is: it is refused, or each
// row group has every column, and a header lies in its bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "corpus/parquet_footer.hpp"
#include "corpus/parquet_pages.hpp"
#include "fuzz/kernels_fuzz.hpp"

namespace krill::fuzz {

inline void fuzz_parquet(const uint8_t* data, size_t size) {
  try {
    const corpus::ParquetFooter footer = corpus::parse_parquet_footer(data, size);
    const size_t cells = footer.rows.size() * footer.columns.size();
    expect(footer.types.size() == cells && footer.compressed.size() == cells, "footer: cells");
    expect(footer.columns.size() <= size && cells <= size, "footer: more columns than bytes");
  } catch (const corpus::DamagedThrift&) {
  }
  try {
    const auto page = corpus::parse_page_header(data, size);
    if (page) expect(page->bytes <= size && page->stored >= 0 && page->decoded >= 0, "page: header");
  } catch (const corpus::DamagedThrift&) {
  }
}

}  // namespace krill::fuzz
