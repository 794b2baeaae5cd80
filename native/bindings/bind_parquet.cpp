#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "corpus/parquet_footer.hpp"
#include "corpus/parquet_pages.hpp"

namespace krill::bindings {

namespace {

Out<int64_t> numbers(const std::vector<int64_t>& values) {
  Buffer<int64_t> buffer(values.size());
  std::copy(values.begin(), values.end(), buffer.data());
  return to_numpy(std::move(buffer));
}

nb::tuple parquet_footer(nb::handle data) {
  const ByteView bytes(data);
  const corpus::ParquetFooter footer =
      without_gil([&] { return corpus::parse_parquet_footer(bytes.data(), bytes.size()); });
  nb::list columns;
  for (const std::string& column : footer.columns) columns.append(nb::bytes(column.data(), column.size()));
  return nb::make_tuple(columns, numbers(footer.rows), numbers(footer.types), numbers(footer.values),
                        numbers(footer.uncompressed), numbers(footer.compressed),
                        numbers(footer.data_page_offsets), numbers(footer.dictionary_page_offsets));
}

nb::object parquet_page_header(nb::handle data) {
  const ByteView bytes(data);
  const auto page = corpus::parse_page_header(bytes.data(), bytes.size());
  if (!page) return nb::none();
  return nb::make_tuple(page->kind, page->stored, page->decoded, page->values, page->bytes);
}

// For each column of an open file, a position or -1.
Out<int64_t> damaged_parquet_pages(int file, const In<int64_t>& starts, const In<int64_t>& ends,
                                   const In<int64_t>& values) {
  if (starts.size() != ends.size() || starts.size() != values.size())
    throw std::invalid_argument("a column has a start, an end and a number of values");
  Buffer<int64_t> found(starts.size());
  {
    nb::gil_scoped_release release;
    for (size_t i = 0; i < starts.size(); ++i)
      found[i] = corpus::find_damaged_page(file, starts.data()[i], ends.data()[i], values.data()[i]);
  }
  return to_numpy(std::move(found));
}

}  // namespace

void bind_parquet(nb::module_& m) {
  nb::register_exception_translator([](const std::exception_ptr& raised, void*) {
    try {
      std::rethrow_exception(raised);
    } catch (const corpus::DamagedThrift& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    }
  });
  m.def("parquet_footer", &parquet_footer, nb::arg("data"));
  m.def("parquet_page_header", &parquet_page_header, nb::arg("data"));
  m.def("damaged_parquet_pages", &damaged_parquet_pages, nb::arg("file"), nb::arg("starts").noconvert(),
        nb::arg("ends").noconvert(), nb::arg("values").noconvert());
}

}  // namespace krill::bindings
