#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/errors.hpp"
#include "pack/piece_reader.hpp"
#include "pack/window.hpp"

namespace krill::bindings {

namespace {

using Lengths = In<uint32_t>;
using Writable = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void make_window(pack::PackedWindow* place, const Lengths& lengths, uint32_t width, bool best_fit) {
  nb::gil_scoped_release release;
  new (place) pack::PackedWindow(lengths.data(), lengths.size(), width, best_fit);
}

nb::tuple pieces(const pack::PackedWindow& window, uint64_t first, uint64_t count) {
  pack::Pieces found = without_gil([&] { return window.pieces(first, count); });
  return nb::make_tuple(to_numpy(std::move(found.starts)), to_numpy(std::move(found.lengths)),
                        to_numpy(std::move(found.row_offsets)));
}

void make_reader(pack::PieceReader* place, const std::vector<nb::bytes>& paths) {
  std::vector<std::string> names;
  for (const nb::bytes& path : paths) names.emplace_back(path.c_str(), path.size());
  new (place) pack::PieceReader(std::move(names));
}

void read_pieces(pack::PieceReader& reader, const In<uint32_t>& files, const In<int64_t>& offsets,
                 const In<int64_t>& sizes, const Writable& out) {
  if (files.size() != offsets.size() || files.size() != sizes.size())
    throw std::invalid_argument("there must be one file, offset and size for each piece");
  nb::gil_scoped_release release;
  reader.read(files.data(), offsets.data(), sizes.data(), files.size(), out.data(), out.size());
}

}  // namespace

void bind_pack(nb::module_& m) {
  bind_error<pack::UnreadableFile>(m, "UnreadableFile", PyExc_OSError, [](const pack::UnreadableFile& error) {
    return nb::make_tuple(error.file, nb::str(error.what()));
  });
  nb::class_<pack::PackedWindow>(m, "PackedWindow")
      .def("__init__", &make_window, nb::arg("lengths").noconvert(), nb::arg("width"), nb::arg("best_fit"),
           nb::keep_alive<1, 2>())  // the window looks at the lengths for as long as it lives
      .def("pieces", &pieces, nb::arg("first"), nb::arg("count"))
      .def_prop_ro("rows", &pack::PackedWindow::rows)
      .def_prop_ro("tokens", &pack::PackedWindow::tokens);
  nb::class_<pack::PieceReader>(m, "PieceReader")
      .def("__init__", &make_reader, nb::arg("paths"))
      .def("read", &read_pieces, nb::arg("files").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("sizes").noconvert(), nb::arg("out").noconvert());
}

}  // namespace krill::bindings
