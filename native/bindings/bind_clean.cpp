#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings/arrays.hpp"
#include "text/clean.hpp"
#include "text/pick.hpp"

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

}  // namespace

void bind_clean(nb::module_& m) {
  m.def("clean", &clean_documents, nb::arg("offsets").noconvert(), nb::arg("data"),
        nb::arg("null_mask").noconvert().none(), nb::arg("strip"), nb::arg("min_chars"));
  m.def("pick_texts", &pick, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("keep").noconvert());
}

}  // namespace krill::bindings
