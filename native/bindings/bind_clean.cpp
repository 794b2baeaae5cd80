#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "bindings/arrays.hpp"
#include "text/clean.hpp"
#include "text/line_filter.hpp"
#include "text/pick.hpp"
#include "text/point_set.hpp"
#include "url/hash_list.hpp"

namespace krill::bindings {

namespace {

nb::tuple clean_documents(const In<int64_t>& offsets, nb::handle data,
                          const std::optional<In<uint8_t>>& null_mask, bool strip, int64_t min_chars) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  if (null_mask && null_mask->size() != column.rows)
    throw std::invalid_argument("null_mask must hold one byte for each document");
  text::CleanColumn result =
      without_gil([&] { return clean(column, null_mask ? null_mask->data() : nullptr, strip, min_chars); });
  nb::dict counts;
  counts["not_text"] = result.counts.not_text;
  counts["too_short"] = result.counts.too_short;
  counts["invalid_utf8"] = result.counts.invalid_utf8;
  return nb::make_tuple(to_numpy(std::move(result.offsets)), to_numpy(std::move(result.data)),
                        to_numpy(std::move(result.kept)), to_numpy(std::move(result.chars)), counts);
}

nb::tuple pick(const In<int64_t>& offsets, nb::handle data, const In<uint8_t>& keep) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  if (keep.size() != column.rows) throw std::invalid_argument("keep must hold one byte for each document");
  text::PickedColumn picked = without_gil([&] { return pick_texts(column, keep.data()); });
  return nb::make_tuple(to_numpy(std::move(picked.offsets)), to_numpy(std::move(picked.data)));
}

// Texts that `change` appends to a buffer, and the numbers that it returns.
template <class Change>
nb::tuple changed_texts(const text::TextColumn& column, Change change) {
  Buffer<int64_t> offsets(column.rows + 1);
  Buffer<uint32_t> counts(column.rows);
  GrowingBuffer<uint8_t> texts;
  {
    nb::gil_scoped_release release;
    texts = GrowingBuffer<uint8_t>(column.total());
    offsets[0] = 0;
    for (size_t row = 0; row < column.rows; ++row) {
      counts[row] = static_cast<uint32_t>(change(column.begin(row), column.size(row), texts));
      offsets[row + 1] = static_cast<int64_t>(texts.size());
    }
  }
  return nb::make_tuple(to_numpy(std::move(offsets)), to_numpy(std::move(texts)),
                        to_numpy(std::move(counts)));
}

Out<uint8_t> has_points(const In<int64_t>& offsets, nb::handle data, nb::handle set) {
  const ByteView bytes(data);
  const ByteView bits(set);
  const text::TextColumn column = text_column(offsets, bytes);
  const text::PointSet points(span_of(bits));
  Buffer<uint8_t> found(column.rows);
  {
    nb::gil_scoped_release release;
    for (size_t row = 0; row < column.rows; ++row)
      found[row] = points.any_in(column.begin(row), column.size(row)) ? 1 : 0;
  }
  return to_numpy(std::move(found));
}

nb::tuple remove_points(const In<int64_t>& offsets, nb::handle data, nb::handle set) {
  const ByteView bytes(data);
  const ByteView bits(set);
  const text::TextColumn column = text_column(offsets, bytes);
  const text::PointSet points(span_of(bits));
  return changed_texts(column, [&](const uint8_t* text, size_t size, GrowingBuffer<uint8_t>& out) {
    return points.remove_from(text, size, out);
  });
}

// Lines to remove, one after the other with a line end between.
url::HashList* make_lines(nb::handle joined) {
  const ByteView bytes(joined);
  nb::gil_scoped_release release;
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto lines =
      std::make_unique<url::HashList>(static_cast<size_t>(std::count(rest.begin(), rest.end(), '\n')) + 1);
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    if (end > 0) lines->add(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  lines->finish();
  return lines.release();
}

nb::tuple remove_lines(const url::HashList& listed, const In<int64_t>& offsets, nb::handle data,
                       nb::handle needed) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  std::optional<ByteView> bits;
  std::optional<text::PointSet> points;
  if (!needed.is_none()) points.emplace(span_of(bits.emplace(needed)));
  return changed_texts(column, [&](const uint8_t* text, size_t size, GrowingBuffer<uint8_t>& out) {
    return text::remove_lines({reinterpret_cast<const char*>(text), size}, points ? &*points : nullptr,
                              listed, out);
  });
}

}  // namespace

void bind_clean(nb::module_& m) {
  m.def("clean", &clean_documents, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("null_mask").noconvert().none(), nb::arg("strip"), nb::arg("min_chars"));
  m.def("pick_texts", &pick, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("keep").noconvert());
  m.def("has_points", &has_points, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("set"));
  m.def("remove_points", &remove_points, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("set"));
  nb::class_<url::HashList>(m, "LineList")
      .def(nb::new_(&make_lines), nb::arg("joined"))
      .def("remove_from", &remove_lines, nb::arg("offsets").noconvert(), nb::arg("data"),
           nb::arg("needed").none());
}

}  // namespace krill::bindings
