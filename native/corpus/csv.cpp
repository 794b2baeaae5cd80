#include "corpus/csv.hpp"

#include <cstring>
#include <stdexcept>
#include <utility>

namespace krill::corpus {

namespace {

bool ends_row(uint8_t c) { return c == '\n' || c == '\r'; }

// Calls take(run, size) for each run of a quoted field's bytes; returns where the field goes on unquoted.
template <class Take>
const uint8_t* pass_quoted(const uint8_t* p, const uint8_t* end, Take&& take) {
  for (;;) {
    const void* found = p == end ? nullptr : std::memchr(p, '"', static_cast<size_t>(end - p));
    const uint8_t* quote = found == nullptr ? end : static_cast<const uint8_t*>(found);
    take(p, static_cast<size_t>(quote - p));
    if (quote == end) return end;
    if (quote + 1 == end || quote[1] != '"') return quote + 1;
    take(quote, 1);
    p = quote + 2;
  }
}

const uint8_t* pass_unquoted(const uint8_t* p, const uint8_t* end, uint8_t delimiter) {
  while (p != end && *p != delimiter && !ends_row(*p)) ++p;
  return p;
}

void check_layout(std::span<const uint8_t> data, std::span<const int64_t> starts, const CsvLayout& layout) {
  for (const int64_t column : layout.wanted) {
    if (column < 0 || static_cast<size_t>(column) >= layout.columns)
      throw std::invalid_argument("a wanted column is beyond the last");
  }
  int64_t before = -1;
  for (const int64_t start : starts) {
    if (start <= before || static_cast<size_t>(start) >= data.size())
      throw std::invalid_argument("rows must rise and begin inside the data");
    before = start;
  }
}

}  // namespace

CsvRows find_csv_rows(std::span<const uint8_t> data, uint8_t delimiter, bool final) {
  CsvRows rows;
  const uint8_t* const begin = data.data();
  const uint8_t* const end = begin + data.size();
  const uint8_t* p = begin;
  while (p != end) {
    const uint8_t* const start = p;
    for (;;) {
      if (p != end && *p == '"') {
        p = pass_quoted(p + 1, end, [](const uint8_t*, size_t) {});
      }
      p = pass_unquoted(p, end, delimiter);
      if (p == end || *p != delimiter) break;
      ++p;
    }
    if (p == end) {
      if (!final) break;
    } else if (*p == '\r' && p + 1 == end && !final) {
      break;  // its newline may come yet
    } else {
      p += *p == '\r' && p + 1 != end && p[1] == '\n' ? 2 : 1;
    }
    if (!ends_row(*start)) rows.starts.push_back(start - begin);
    rows.end = static_cast<size_t>(p - begin);
  }
  return rows;
}

CsvFields split_csv_rows(std::span<const uint8_t> data, std::span<const int64_t> starts,
                         const CsvLayout& layout) {
  check_layout(data, starts, layout);
  std::vector<RowBuilder> builders(layout.wanted.size());
  std::vector<RowBuilder*> builder_of(layout.columns, nullptr);
  for (size_t i = 0; i < builders.size(); ++i)
    builder_of[static_cast<size_t>(layout.wanted[i])] = &builders[i];
  CsvFields fields;
  const uint8_t* const end = data.data() + data.size();
  for (size_t row = 0; row < starts.size(); ++row) {
    const uint8_t* p = data.data() + starts[row];
    size_t column = 0;
    for (;; ++column, ++p) {
      RowBuilder* const builder = column < layout.columns ? builder_of[column] : nullptr;
      const auto take = [builder](const uint8_t* run, size_t size) {
        if (builder != nullptr) builder->append(run, size);
      };
      if (p != end && *p == '"') p = pass_quoted(p + 1, end, take);
      const uint8_t* const stop = pass_unquoted(p, end, layout.delimiter);
      take(p, static_cast<size_t>(stop - p));
      p = stop;
      if (p == end || *p != layout.delimiter) break;
    }
    const bool whole = column + 1 == layout.columns;
    if (!whole && fields.malformed.size() == 0) fields.first_malformed_columns = column + 1;
    if (!whole) fields.malformed.push_back(static_cast<int64_t>(row));
    for (RowBuilder& builder : builders) {
      if (whole) {
        builder.finish_row(builder.open_size());
      } else {
        builder.discard_open();
      }
    }
  }
  for (RowBuilder& builder : builders) fields.columns.push_back(builder.take());
  return fields;
}

}  // namespace krill::corpus
