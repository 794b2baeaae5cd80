#include <nanobind/nanobind.h>

#include "bindings/arrays.hpp"
#include "datatrove/signatures.hpp"

namespace nb = nanobind;
using namespace krill;
using namespace krill::bindings;

namespace {

using NumbersOut = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>>;

class SharedSigner {
 public:
  SharedSigner(const In<std::uint32_t>& points, const In<std::uint8_t>& changes,
               const In<std::int64_t>& offsets, nb::handle replacements, const In<std::uint64_t>& factors,
               const In<std::uint64_t>& addends, std::size_t ngram)
      : permutations_(checked(factors, addends)),
        signer_(simplifier(points, changes, offsets, replacements), factors.data(), addends.data(),
                factors.size(), ngram) {}

  nb::tuple sign(const In<std::int64_t>& offsets, nb::handle data) const {
    const ByteView bytes(data);
    const TextColumn column = text_column(offsets, bytes);
    datatrove::SignatureTable table = [&] {
      nb::gil_scoped_release release;
      return signer_.sign(column);
    }();
    std::uint64_t* numbers = table.numbers.data();
    return nb::make_tuple(
        NumbersOut(numbers, {column.rows, permutations_}, owner_of(std::move(table.numbers))),
        bindings::to_numpy(std::move(table.has_shingle)));
  }

  nb::tuple words(const In<std::int64_t>& offsets, nb::handle data) const {
    const ByteView bytes(data);
    const TextColumn column = text_column(offsets, bytes);
    datatrove::JoinedWords words = [&] {
      nb::gil_scoped_release release;
      return signer_.words(column);
    }();
    words.bytes.shrink_to_fit();
    const std::size_t size = words.bytes.size();
    std::uint8_t* joined = words.bytes.release();
    return nb::make_tuple(bindings::to_numpy(std::move(words.offsets)),
                          Out<std::uint8_t>(joined, {size}, owner_of(joined)));
  }

 private:
  // Sizes are checked before anything is read by them.
  static std::size_t checked(const In<std::uint64_t>& factors, const In<std::uint64_t>& addends) {
    if (addends.size() != factors.size())
      throw std::invalid_argument("there must be one addend for each factor");
    return factors.size();
  }

  static datatrove::Simplifier simplifier(const In<std::uint32_t>& points, const In<std::uint8_t>& changes,
                                          const In<std::int64_t>& offsets, nb::handle replacements) {
    const ByteView bytes(replacements);
    const TextColumn column = text_column(offsets, bytes);
    if (points.size() != column.rows || changes.size() != column.rows)
      throw std::invalid_argument("there must be one change and one replacement for each character");
    return datatrove::Simplifier(points.data(), changes.data(), column);
  }

  std::size_t permutations_;
  datatrove::Signer signer_;
};

Out<std::uint64_t> hashes(const In<std::int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const TextColumn column = text_column(offsets, bytes);
  Buffer<std::uint64_t> result = [&] {
    nb::gil_scoped_release release;
    return datatrove::hashes_of(column);
  }();
  return bindings::to_numpy(std::move(result));
}

}  // namespace

void bind_datatrove(nb::module_& m) {
  nb::class_<SharedSigner>(m, "DatatroveSigner")
      .def(nb::init<const In<std::uint32_t>&, const In<std::uint8_t>&, const In<std::int64_t>&, nb::handle,
                    const In<std::uint64_t>&, const In<std::uint64_t>&, std::size_t>(),
           nb::arg("points").noconvert(), nb::arg("changes").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("replacements"), nb::arg("factors").noconvert(), nb::arg("addends").noconvert(),
           nb::arg("ngram"))
      .def("sign", &SharedSigner::sign, nb::arg("offsets").noconvert(), nb::arg("data"))
      .def("words", &SharedSigner::words, nb::arg("offsets").noconvert(), nb::arg("data"));
  m.def("xxh64_documents", &hashes, nb::arg("offsets").noconvert(), nb::arg("data"));
}
