#include <nanobind/nanobind.h>

#include "bindings/arrays.hpp"
#include "pack/runs.hpp"

namespace krill::bindings {

namespace {

template <class Id>
nb::tuple to_tuple(pack::TokenRuns<Id> runs) {
  return nb::make_tuple(to_numpy(std::move(runs.ids)), to_numpy(std::move(runs.lengths)));
}

nb::tuple encode(const In<int64_t>& offsets, nb::handle data, uint16_t eos) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  pack::TokenRuns<uint16_t> runs = without_gil([&] { return pack::encode_bytes(column, eos); });
  return to_tuple(std::move(runs));
}

template <class Id>
nb::tuple select(const In<Id>& ids, const In<uint32_t>& lengths, const In<uint8_t>& keep) {
  if (lengths.size() != keep.size()) throw std::invalid_argument("keep must hold one byte for each length");
  pack::TokenRuns<Id> runs = without_gil(
      [&] { return pack::select_runs(ids.data(), ids.size(), lengths.data(), keep.data(), keep.size()); });
  return to_tuple(std::move(runs));
}

template <class Id>
nb::tuple begin(const In<Id>& ids, const In<uint32_t>& lengths, Id first) {
  pack::TokenRuns<Id> runs = without_gil(
      [&] { return pack::begin_runs(ids.data(), ids.size(), lengths.data(), lengths.size(), first); });
  return to_tuple(std::move(runs));
}

template <class Id>
void bind_runs(nb::module_& m) {
  m.def("select_runs", &select<Id>, nb::arg("ids").noconvert(), nb::arg("lengths").noconvert(),
        nb::arg("keep").noconvert());
  m.def("begin_runs", &begin<Id>, nb::arg("ids").noconvert(), nb::arg("lengths").noconvert(),
        nb::arg("first"));
}

}  // namespace

void bind_tokens(nb::module_& m) {
  m.def("encode_bytes", &encode, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("eos"));
  bind_runs<uint8_t>(m);
  bind_runs<uint16_t>(m);
  bind_runs<uint32_t>(m);
  bind_runs<uint64_t>(m);
}

}  // namespace krill::bindings
