// Rows and fields of CSV for Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/joined_columns.hpp"
#include "text/csv.hpp"

namespace nb = nanobind;
using namespace krill::bindings;
using namespace krill::text;

namespace {

std::span<const std::uint8_t> span_of(const ByteView& bytes) { return {bytes.data(), bytes.size()}; }

nb::tuple csv_rows(nb::handle data, std::uint8_t delimiter, bool final) {
  const ByteView bytes(data);
  CsvRows rows = [&] {
    nb::gil_scoped_release release;
    return find_csv_rows(span_of(bytes), delimiter, final);
  }();
  return nb::make_tuple(to_array(std::move(rows.starts)), rows.end);
}

nb::tuple csv_fields(nb::handle data, const In<std::int64_t>& starts, std::uint8_t delimiter,
                     std::size_t columns, std::vector<std::int64_t> wanted) {
  const ByteView bytes(data);
  const CsvLayout layout{delimiter, columns, std::move(wanted)};
  CsvFields fields = [&] {
    nb::gil_scoped_release release;
    return split_csv_rows(span_of(bytes), krill::bindings::span_of(starts), layout);
  }();
  const nb::tuple joined = to_joined(std::move(fields.columns));
  return nb::make_tuple(joined, to_array(std::move(fields.malformed)), fields.first_malformed_columns);
}

}  // namespace

void bind_csv(nb::module_& m) {
  m.def("csv_rows", &csv_rows, nb::arg("data"), nb::arg("delimiter"), nb::arg("final"));
  m.def("csv_fields", &csv_fields, nb::arg("data"), nb::arg("starts").noconvert(), nb::arg("delimiter"),
        nb::arg("columns"), nb::arg("wanted"));
}
