#include <nanobind/nanobind.h>

#include "bindings/arrays.hpp"
#include "pack/runs.hpp"

namespace nb = nanobind;
using namespace krill;
using namespace krill::bindings;

namespace {

template <class Id>
nb::tuple to_numpy(TokenRuns<Id> runs) {
  return nb::make_tuple(bindings::to_numpy(std::move(runs.ids)), bindings::to_numpy(std::move(runs.lengths)));
}

nb::tuple encode(const In<std::int64_t>& offsets, nb::handle data, std::uint16_t eos) {
  const ByteView bytes(data);
  const TextColumn column = text_column(offsets, bytes);
  TokenRuns<std::uint16_t> runs = [&] {
    nb::gil_scoped_release release;
    return encode_bytes(column, eos);
  }();
  return to_numpy(std::move(runs));
}

template <class Id>
nb::tuple select(const In<Id>& ids, const In<std::uint32_t>& lengths, const In<std::uint8_t>& keep) {
  if (lengths.size() != keep.size()) throw std::invalid_argument("keep must hold one byte for each length");
  TokenRuns<Id> runs = [&] {
    nb::gil_scoped_release release;
    return select_runs(ids.data(), ids.size(), lengths.data(), keep.data(), keep.size());
  }();
  return to_numpy(std::move(runs));
}

template <class Id>
nb::tuple begin(const In<Id>& ids, const In<std::uint32_t>& lengths, Id first) {
  TokenRuns<Id> runs = [&] {
    nb::gil_scoped_release release;
    return begin_runs(ids.data(), ids.size(), lengths.data(), lengths.size(), first);
  }();
  return to_numpy(std::move(runs));
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
  bind_runs<std::uint8_t>(m);
  bind_runs<std::uint16_t>(m);
  bind_runs<std::uint32_t>(m);
  bind_runs<std::uint64_t>(m);
}
