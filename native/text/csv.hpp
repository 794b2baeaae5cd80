// Rows and fields of CSV and TSV, as Arrow's parser sees them, without its memory for every column of a row.
//
// A newline, a return, or both end a row unless they are quoted; a quote opens only at the beginning of a
// field, two of them inside are one that is meant, and what follows the closing one belongs to the field.
// What is never closed reaches to the end. Empty rows are none. Held in memory: the numbers of the rows, or
// the wanted fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "text/growing_buffer.hpp"
#include "text/row_builder.hpp"

namespace krill::text {

struct CsvRows {
  GrowingBuffer<int64_t> starts;  // of the rows that are not empty
  size_t end = 0;                 // of the last whole row
};

// The rows in bytes that begin with one. Unless these are the file's `final` ones, a row has to be seen to
// end.
CsvRows find_csv_rows(std::span<const uint8_t> data, uint8_t delimiter, bool final);

struct CsvLayout {
  uint8_t delimiter;
  size_t columns;               // of each row
  std::vector<int64_t> wanted;  // numbers of columns, no two the same
};

struct CsvFields {
  std::vector<Rows> columns;         // those that are wanted, in their order
  GrowingBuffer<int64_t> malformed;  // places of the rows that have more or fewer columns
  size_t first_malformed_columns = 0;
};

// The wanted fields of the rows that begin at `starts`, which rise, without those of malformed rows.
CsvFields split_csv_rows(std::span<const uint8_t> data, std::span<const int64_t> starts,
                         const CsvLayout& layout);

}  // namespace krill::text
