#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/string.h>

#include <array>
#include <string>

#include "bindings/arrays.hpp"
#include "check.hpp"
#include "url/url_filter.hpp"

namespace krill::bindings {

namespace {

using Lists = std::array<size_t, url::UrlFilter::kHashLists>;

std::string_view lines_of(const ByteView& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void make(url::UrlFilter* filter, const Lists& entries, std::array<size_t, 2> subwords, size_t threshold,
          bool ignore_case) {
  expect(threshold > 0, "soft_word_threshold must be at least 1");
  new (filter) url::UrlFilter({entries, subwords[0], subwords[1], threshold, ignore_case});
}

void add_lines(url::UrlFilter& filter, size_t list, nb::handle lines) {
  expect(list < url::UrlFilter::kHashLists, "there is no such list");
  const ByteView bytes(lines);
  nb::gil_scoped_release release;
  filter.add_lines(static_cast<url::UrlFilter::List>(list), lines_of(bytes));
}

void add_subwords(url::UrlFilter& filter, nb::handle lines) {
  const ByteView bytes(lines);
  nb::gil_scoped_release release;
  filter.add_subwords(lines_of(bytes));
}

Out<uint8_t> judge(const url::UrlFilter& filter, const In<int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  Buffer<uint8_t> reasons(column.rows);
  {
    nb::gil_scoped_release release;
    url::UrlFilter::Scratch scratch;
    for (size_t row = 0; row < column.rows; ++row)
      reasons[row] = static_cast<uint8_t>(
          filter.judge({reinterpret_cast<const char*>(column.begin(row)), column.size(row)}, scratch));
  }
  return to_numpy(std::move(reasons));
}

}  // namespace

void bind_url(nb::module_& m) {
  nb::class_<url::UrlFilter>(m, "UrlFilter")
      .def("__init__", &make, nb::arg("entries"), nb::arg("subwords"), nb::arg("soft_word_threshold"),
           nb::arg("ignore_case"))
      .def("add_lines", &add_lines, nb::arg("list"), nb::arg("lines"))
      .def("add_subwords", &add_subwords, nb::arg("lines"))
      .def(
          "add_suffix", [](url::UrlFilter& filter, const std::string& rule) { filter.add_suffix(rule); },
          nb::arg("rule"))
      .def("finish", &url::UrlFilter::finish, nb::call_guard<nb::gil_scoped_release>())
      .def_prop_ro("size", &url::UrlFilter::size)
      .def("fingerprints", &url::UrlFilter::fingerprints)
      .def("judge", &judge, nb::arg("offsets").noconvert(), nb::arg("data"));
}

}  // namespace krill::bindings
