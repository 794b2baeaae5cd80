#include <nanobind/nanobind.h>

#include "bindings/arrays.hpp"
#include "pack/token_batch.hpp"

namespace krill::bindings {

namespace {

template <class Id>
nb::tuple to_tuple(pack::TokenBatch<Id> batch) {
  return nb::make_tuple(to_numpy(std::move(batch.ids)), to_numpy(std::move(batch.lengths)));
}

nb::tuple encode(const In<int64_t>& offsets, nb::handle data, uint16_t eos) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  return to_tuple(without_gil([&] { return pack::encode_bytes(column, eos); }));
}

template <class Id>
nb::tuple select(const In<Id>& ids, const In<uint32_t>& lengths, const In<uint8_t>& keep) {
  if (lengths.size() != keep.size()) throw std::invalid_argument("keep must hold one byte for each length");
  return to_tuple(without_gil([&] {
    return pack::select_documents(ids.data(), ids.size(), lengths.data(), keep.data(), keep.size());
  }));
}

template <class Id>
nb::tuple prepend(const In<Id>& ids, const In<uint32_t>& lengths, Id first) {
  return to_tuple(without_gil(
      [&] { return pack::prepend_token(ids.data(), ids.size(), lengths.data(), lengths.size(), first); }));
}

template <class Id>
void bind_token_batch(nb::module_& m) {
  m.def("select_documents", &select<Id>, nb::arg("ids").noconvert(), nb::arg("lengths").noconvert(),
        nb::arg("keep").noconvert());
  m.def("prepend_token", &prepend<Id>, nb::arg("ids").noconvert(), nb::arg("lengths").noconvert(),
        nb::arg("first"));
}

}  // namespace

void bind_tokens(nb::module_& m) {
  m.def("encode_bytes", &encode, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("eos"));
  bind_token_batch<uint8_t>(m);
  bind_token_batch<uint16_t>(m);
  bind_token_batch<uint32_t>(m);
  bind_token_batch<uint64_t>(m);
}

}  // namespace krill::bindings
