#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>

#include "bindings/arrays.hpp"
#include "corpus/json_outline.hpp"
#include "text/cut_count.hpp"
#include "text/literal_set.hpp"

namespace krill::bindings {

namespace {

std::string_view view_of(const ByteView& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void add_patterns(text::LiteralSet& set, nb::handle joined) {
  const ByteView bytes(joined);
  nb::gil_scoped_release release;
  std::string_view rest = view_of(bytes);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    set.add(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

void finish(text::LiteralSet& set) {
  nb::gil_scoped_release release;
  set.finish();
}

Out<uint8_t> search(const text::LiteralSet& set, const In<int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  Buffer<uint8_t> found(column.rows);
  {
    nb::gil_scoped_release release;
    std::vector<char> folded;
    for (size_t row = 0; row < column.rows; ++row)
      found.data()[row] =
          set.found_in({reinterpret_cast<const char*>(column.begin(row)), column.size(row)}, folded) ? 1 : 0;
  }
  return to_numpy(std::move(found));
}

Out<uint64_t> cut_counts(const In<int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  Buffer<uint64_t> counts(column.rows);
  {
    nb::gil_scoped_release release;
    for (size_t row = 0; row < column.rows; ++row)
      counts.data()[row] = text::cut_count(column.begin(row), column.size(row));
  }
  return to_numpy(std::move(counts));
}

void feed(corpus::JsonOutline& outline, nb::handle data) {
  const ByteView bytes(data);
  nb::gil_scoped_release release;
  outline.feed(view_of(bytes));
}

nb::dict parts(const corpus::JsonOutline& outline) {
  nb::dict result;
  const auto put = [&](const char* name, const corpus::JsonOutline::Part& part) {
    result[name] = nb::make_tuple(part.values, part.bytes, part.strings, part.string_bytes);
  };
  put("vocabulary", outline.vocabulary);
  put("merges", outline.merges);
  put("added_tokens", outline.added_tokens);
  return result;
}

nb::object text_of(const corpus::JsonOutline& outline) {
  if (!outline.complete()) return nb::none();
  return nb::bytes(outline.text().data(), outline.text().size());
}

}  // namespace

void bind_literals(nb::module_& m) {
  nb::class_<text::LiteralSet>(m, "LiteralSet")
      .def(nb::init<size_t, size_t, bool>(), nb::arg("patterns"), nb::arg("bytes"), nb::arg("ignore_case"))
      .def("add", &add_patterns, nb::arg("joined"))
      .def("finish", &finish)
      .def("search", &search, nb::arg("offsets").noconvert(), nb::arg("data"));
  nb::class_<corpus::JsonOutline>(m, "JsonOutline")
      .def(nb::init<size_t>(), nb::arg("most_bytes"))
      .def("feed", &feed, nb::arg("data"))
      .def("parts", &parts)
      .def("text", &text_of);
  m.def("cut_counts", &cut_counts, nb::arg("offsets").noconvert(), nb::arg("data"));
}

}  // namespace krill::bindings
