// Rows and fields of CSV for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/joined_columns.hpp"
#include "corpus/csv.hpp"

namespace krill::bindings {

namespace {

nb::tuple csv_rows(nb::handle data, uint8_t delimiter, bool final) {
  const ByteView bytes(data);
  corpus::CsvRows rows = without_gil([&] { return corpus::find_csv_rows(span_of(bytes), delimiter, final); });
  return nb::make_tuple(to_numpy(std::move(rows.starts)), rows.end);
}

nb::tuple csv_fields(nb::handle data, const In<int64_t>& starts, uint8_t delimiter, size_t columns,
                     std::vector<int64_t> wanted) {
  const ByteView bytes(data);
  const corpus::CsvLayout layout{delimiter, columns, std::move(wanted)};
  corpus::CsvFields fields =
      without_gil([&] { return split_csv_rows(span_of(bytes), span_of(starts), layout); });
  const nb::tuple joined = to_joined(std::move(fields.columns));
  return nb::make_tuple(joined, to_numpy(std::move(fields.malformed)), fields.first_malformed_columns);
}

}  // namespace

void bind_csv(nb::module_& m) {
  m.def("csv_rows", &csv_rows, nb::arg("data"), nb::arg("delimiter"), nb::arg("final"));
  m.def("csv_fields", &csv_fields, nb::arg("data"), nb::arg("starts").noconvert(), nb::arg("delimiter"),
        nb::arg("columns"), nb::arg("wanted"));
}

}  // namespace krill::bindings
