// Rows and fields of CSV and TSV, as Arrow's parser sees them, without its memory for every column of a row.
//
// A newline, a return, or both end a row unless they are quoted; a quote opens only at the beginning of a
// field, two of them inside are an escaped one, and what follows the closing quote belongs to the field.
// An unclosed quote reaches to the end. Empty rows are ignored. Held in memory: the offsets of the rows, or
// the wanted fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "corpus/row_builder.hpp"
#include "growing_buffer.hpp"

namespace krill::corpus {

struct CsvRows {
  GrowingBuffer<int64_t> starts;  // of the rows that are not empty
  size_t end = 0;                 // of the last whole row
};

// The rows of bytes that begin at a row. Unless these are the file's `final` bytes, a row counts only when
// its end was seen.
CsvRows find_csv_rows(std::span<const uint8_t> data, uint8_t delimiter, bool final);

struct CsvLayout {
  uint8_t delimiter;
  size_t columns;               // of each row
  std::vector<int64_t> wanted;  // indices of columns, no two the same
};

struct CsvFields {
  std::vector<Rows> columns;         // the wanted ones, in their order
  GrowingBuffer<int64_t> malformed;  // indices of rows with more or fewer columns
  size_t first_malformed_columns = 0;
};

// The wanted fields of the rows that begin at `starts`, which must rise, without those of malformed rows.
CsvFields split_csv_rows(std::span<const uint8_t> data, std::span<const int64_t> starts,
                         const CsvLayout& layout);

}  // namespace krill::corpus
