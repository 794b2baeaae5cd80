#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <cerrno>
#include <optional>
#include <span>
#include <stdexcept>
#include <system_error>
#include <utility>

#include "bindings/arrays.hpp"
#include "qa/feature_rows.hpp"
#include "qa/mapped_file.hpp"

namespace krill::bindings {

namespace {

using Column = nb::ndarray<int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Table = nb::ndarray<int32_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
using Spans = nb::ndarray<int32_t, nb::ndim<3>, nb::c_contig, nb::device::cpu>;

// ---- layouts

void make_layout(qa::FeatureLayout* place, const In<int32_t>& kinds, const In<int32_t>& types,
                 const In<int32_t>& fixed, const In<int32_t>& ids, bool pad_left, int64_t cls_piece,
                 int64_t cls_place) {
  if (types.size() != kinds.size() || fixed.size() != kinds.size())
    throw std::invalid_argument("a piece has a kind, a type and a length");
  qa::FeatureLayout layout;
  layout.pad_left = pad_left;
  size_t at = 0;
  for (size_t number = 0; number < kinds.size(); ++number) {
    const int32_t kind = kinds.data()[number];
    const int32_t length = fixed.data()[number];
    if (kind < 0 || kind > 2 || length < 0 || static_cast<size_t>(length) > ids.size() - at ||
        (kind != 0 && length != 0))
      throw std::invalid_argument("there is no such piece");
    const int32_t* first = ids.data() + at;
    layout.pieces.push_back(
        {static_cast<qa::PieceKind>(kind), types.data()[number], {first, first + length}});
    at += static_cast<size_t>(length);
  }
  if (cls_piece >= 0) {
    const auto piece = static_cast<size_t>(cls_piece);
    if (piece >= layout.pieces.size() || cls_place < 0 ||
        static_cast<size_t>(cls_place) >= layout.pieces[piece].ids.size())
      throw std::invalid_argument("there is no such classification token");
    layout.cls_piece = piece;
    layout.cls_place = static_cast<size_t>(cls_place);
  }
  new (place) qa::FeatureLayout(std::move(layout));
}

// ---- tables

// Keeps the arrays that the spans show.
struct HeldTables {
  In<int32_t> example, begin, length, first, last, paragraph;
  In<int64_t> question_starts;
  In<uint32_t> question_ids;
  In<int64_t> context_starts;
  In<uint32_t> context_ids;
  In<int32_t> context_spans;

  qa::FeatureTables tables() const {
    return {span_of(example),        span_of(begin),       span_of(length),          span_of(first),
            span_of(last),           span_of(paragraph),   span_of(question_starts), span_of(question_ids),
            span_of(context_starts), span_of(context_ids), span_of(context_spans)};
  }
};

void make_tables(HeldTables* place, In<int32_t> example, In<int32_t> begin, In<int32_t> length,
                 In<int32_t> first, In<int32_t> last, In<int32_t> paragraph, In<int64_t> question_starts,
                 In<uint32_t> question_ids, In<int64_t> context_starts, In<uint32_t> context_ids,
                 In<int32_t> context_spans) {
  new (place) HeldTables{std::move(example),         std::move(begin),        std::move(length),
                         std::move(first),           std::move(last),         std::move(paragraph),
                         std::move(question_starts), std::move(question_ids), std::move(context_starts),
                         std::move(context_ids),     std::move(context_spans)};
}

// ---- rows

size_t fill(const qa::FeatureLayout& layout, const HeldTables& held, const In<int64_t>& wanted,
            const In<int64_t>& places, const Table& input_ids, const Table& attention_mask,
            const Table& token_types, const Column& starts, const Column& ends, const Column& cls_index,
            const std::optional<Spans>& offsets) {
  const size_t rows = input_ids.shape(0);
  const size_t width = input_ids.shape(1);
  for (const Table* table : {&attention_mask, &token_types})
    if (table->shape(0) != rows || table->shape(1) != width)
      throw std::invalid_argument("the arrays have different shapes");
  for (const Column* column : {&starts, &ends, &cls_index})
    if (column->shape(0) != rows) throw std::invalid_argument("the arrays have different lengths");
  if (offsets && (offsets->shape(0) != rows || offsets->shape(1) != width || offsets->shape(2) != 2))
    throw std::invalid_argument("the offsets have another shape");
  if (wanted.size() != places.size()) throw std::invalid_argument("each feature needs a place");
  const qa::FeatureRows out{input_ids.data(),
                            attention_mask.data(),
                            token_types.data(),
                            starts.data(),
                            ends.data(),
                            cls_index.data(),
                            offsets ? offsets->data() : nullptr,
                            rows,
                            width};
  const qa::FeatureTables tables = held.tables();
  nb::gil_scoped_release release;
  return qa::fill_feature_rows(layout, tables, span_of(wanted), span_of(places), out);
}

// ---- files

void make_mapped_file(qa::MappedFile* place, const nb::bytes& path) {
  try {
    new (place) qa::MappedFile(path.c_str());
  } catch (const std::system_error& error) {
    errno = error.code().value();
    PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path.ptr());
    nb::raise_python_error();
  }
}

nb::ndarray<nb::numpy, const uint8_t, nb::ndim<1>> content(nb::handle self) {
  const auto& file = nb::cast<const qa::MappedFile&>(self);
  return {file.data(), {file.size()}, self};
}

}  // namespace

void bind_qa(nb::module_& m) {
  nb::class_<qa::FeatureLayout>(m, "FeatureLayout")
      .def("__init__", &make_layout, nb::arg("kinds").noconvert(), nb::arg("types").noconvert(),
           nb::arg("fixed").noconvert(), nb::arg("ids").noconvert(), nb::arg("pad_left"),
           nb::arg("cls_piece"), nb::arg("cls_place"));
  nb::class_<HeldTables>(m, "FeatureTables")
      .def("__init__", &make_tables, nb::arg("example").noconvert(), nb::arg("begin").noconvert(),
           nb::arg("length").noconvert(), nb::arg("first").noconvert(), nb::arg("last").noconvert(),
           nb::arg("paragraph").noconvert(), nb::arg("question_starts").noconvert(),
           nb::arg("question_ids").noconvert(), nb::arg("context_starts").noconvert(),
           nb::arg("context_ids").noconvert(), nb::arg("context_spans").noconvert());
  m.def("fill_feature_rows", &fill, nb::arg("layout"), nb::arg("tables"), nb::arg("wanted").noconvert(),
        nb::arg("places").noconvert(), nb::arg("input_ids").noconvert(),
        nb::arg("attention_mask").noconvert(), nb::arg("token_types").noconvert(),
        nb::arg("starts").noconvert(), nb::arg("ends").noconvert(), nb::arg("cls_index").noconvert(),
        nb::arg("offsets").noconvert().none());
  nb::class_<qa::MappedFile>(m, "MappedFile")
      .def("__init__", &make_mapped_file, nb::arg("path"))
      .def("content", &content)
      .def("drop_pages", &qa::MappedFile::drop_pages, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace krill::bindings
