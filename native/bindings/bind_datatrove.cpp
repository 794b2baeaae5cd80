#include <nanobind/nanobind.h>

#include "bindings/arrays.hpp"
#include "datatrove/signatures.hpp"

namespace krill::bindings {

namespace {

using NumbersOut = nb::ndarray<nb::numpy, uint64_t, nb::ndim<2>>;

class SharedSigner {
 public:
  SharedSigner(const In<uint32_t>& points, const In<uint8_t>& changes, const In<int64_t>& offsets,
               nb::handle replacements, const In<uint64_t>& factors, const In<uint64_t>& addends,
               size_t ngram)
      : permutations_(checked(factors, addends)),
        signer_(simplifier(points, changes, offsets, replacements), factors.data(), addends.data(),
                factors.size(), ngram) {}

  nb::tuple sign(const In<int64_t>& offsets, nb::handle data) const {
    const ByteView bytes(data);
    const text::TextColumn column = text_column(offsets, bytes);
    datatrove::SignatureTable table = without_gil([&] { return signer_.sign(column); });
    uint64_t* numbers = table.numbers.data();
    return nb::make_tuple(
        NumbersOut(numbers, {column.rows, permutations_}, owner_of(std::move(table.numbers))),
        to_numpy(std::move(table.has_shingle)));
  }

  nb::tuple words(const In<int64_t>& offsets, nb::handle data) const {
    const ByteView bytes(data);
    const text::TextColumn column = text_column(offsets, bytes);
    datatrove::JoinedWords words = without_gil([&] { return signer_.words(column); });
    return nb::make_tuple(to_numpy(std::move(words.offsets)), to_numpy(std::move(words.bytes)));
  }

 private:
  // Sizes are checked before anything is read by them.
  static size_t checked(const In<uint64_t>& factors, const In<uint64_t>& addends) {
    if (addends.size() != factors.size())
      throw std::invalid_argument("there must be one addend for each factor");
    return factors.size();
  }

  static datatrove::Simplifier simplifier(const In<uint32_t>& points, const In<uint8_t>& changes,
                                          const In<int64_t>& offsets, nb::handle replacements) {
    const ByteView bytes(replacements);
    const text::TextColumn column = text_column(offsets, bytes);
    if (points.size() != column.rows || changes.size() != column.rows)
      throw std::invalid_argument("there must be one change and one replacement for each character");
    return datatrove::Simplifier(points.data(), changes.data(), column);
  }

  size_t permutations_;
  datatrove::Signer signer_;
};

Out<uint64_t> hashes(const In<int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  return to_numpy(without_gil([&] { return datatrove::hashes_of(column); }));
}

}  // namespace

void bind_datatrove(nb::module_& m) {
  nb::class_<SharedSigner>(m, "DatatroveSigner")
      .def(nb::init<const In<uint32_t>&, const In<uint8_t>&, const In<int64_t>&, nb::handle,
                    const In<uint64_t>&, const In<uint64_t>&, size_t>(),
           nb::arg("points").noconvert(), nb::arg("changes").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("replacements"), nb::arg("factors").noconvert(), nb::arg("addends").noconvert(),
           nb::arg("ngram"))
      .def("sign", &SharedSigner::sign, nb::arg("offsets").noconvert(), nb::arg("data"))
      .def("words", &SharedSigner::words, nb::arg("offsets").noconvert(), nb::arg("data"));
  m.def("xxh64_documents", &hashes, nb::arg("offsets").noconvert(), nb::arg("data"));
}

}  // namespace krill::bindings
