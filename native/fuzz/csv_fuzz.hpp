// CSV: rows found in pieces are those found at once, and fields stay inside the data.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "corpus/csv.hpp"
#include "fuzz/readers_fuzz.hpp"

namespace krill::fuzz {

inline std::vector<int64_t> rows_in_pieces(std::span<const uint8_t> data, uint8_t delimiter, size_t step) {
  std::vector<int64_t> starts;
  size_t done = 0;
  size_t seen = 0;
  while (done < data.size()) {
    seen = std::min(data.size(), std::max(seen, done) + step);
    const bool final = seen == data.size();
    const corpus::CsvRows rows = corpus::find_csv_rows(data.subspan(done, seen - done), delimiter, final);
    for (size_t i = 0; i < rows.starts.size(); ++i)
      starts.push_back(static_cast<int64_t>(done) + rows.starts[i]);
    require(!final || rows.end == seen - done, "the final stretch is not read to its end");
    done += rows.end;
  }
  return starts;
}

inline void fuzz_csv(const uint8_t* input, size_t size) {
  Settings settings(input, size);
  const uint8_t delimiter = settings.flag() ? ',' : '\t';
  const size_t columns = 1 + settings.next() % 4;
  const size_t step = 1 + settings.next() % 9;
  const std::span<const uint8_t> data(settings.rest(), settings.rest_size());
  const corpus::CsvRows rows = corpus::find_csv_rows(data, delimiter, true);
  require(rows.end == data.size(), "rows do not reach the end");
  const std::vector<int64_t> starts(rows.starts.data(), rows.starts.data() + rows.starts.size());
  require(rows_in_pieces(data, delimiter, step) == starts, "cuts change the rows");
  std::vector<int64_t> wanted{static_cast<int64_t>(columns) - 1};
  if (columns > 1) wanted.push_back(0);
  const corpus::CsvFields fields = corpus::split_csv_rows(data, starts, {delimiter, columns, wanted});
  for (const corpus::Rows& column : fields.columns) {
    std::vector<std::optional<std::string>> cells;
    add_rows(cells, column, data.size());
    require(cells.size() + fields.malformed.size() == starts.size(), "a row is lost");
  }
}

}  // namespace krill::fuzz
