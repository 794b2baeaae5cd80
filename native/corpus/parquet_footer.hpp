// The row groups and column chunks that a Parquet footer describes, checked: every row group has as
// many columns as the schema has leaves, and no size or count is negative. Arrow's own accessors abort
// the process where a footer contradicts itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "corpus/thrift.hpp"

namespace krill::corpus {

struct ParquetFooter {
  // For each leaf of the schema, the column of the table that it is a part of.
  std::vector<std::string> columns;
  // For each row group.
  std::vector<int64_t> rows;
  // For each row group and leaf, in that order. An offset is 0 where there is no such page.
  std::vector<int64_t> types, values, uncompressed, compressed, data_page_offsets, dictionary_page_offsets;
};

// Throws DamagedThrift.
ParquetFooter parse_parquet_footer(const uint8_t* data, size_t size);

}  // namespace krill::corpus
