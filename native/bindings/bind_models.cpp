// The models that turn words into tokens. A model is shared by the threads of an encoder; encoding words that
// were cut before, as tests and benchmarks do, releases the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bindings/arrays.hpp"
#include "growing_buffer.hpp"
#include "models/token_arrays.hpp"
#include "models/unigram.hpp"
#include "models/word_level.hpp"
#include "models/word_piece.hpp"
#include "tokenizer/model.hpp"

namespace krill::bindings {

namespace {

struct EncodedWords {
  GrowingBuffer<uint32_t> ids;
  GrowingBuffer<uint32_t> lengths;
  GrowingBuffer<uint32_t> counts;
};

EncodedWords encode_column(const tokenizer::Model& model, const text::TextColumn& words) {
  EncodedWords result;
  const std::unique_ptr<tokenizer::ModelScratch> scratch = model.make_scratch();
  for (size_t row = 0; row < words.rows; ++row) {
    const size_t size = words.size(row);
    if (size >= 0xffffffff) throw std::invalid_argument("a word is 4 GiB or longer");
    uint32_t* const ids = result.ids.room(size);
    uint32_t* const lengths = result.lengths.room(size);
    const size_t count = size == 0 ? 0 : model.encode(words.begin(row), size, ids, lengths, *scratch);
    result.ids.set_end(ids + count);
    result.lengths.set_end(lengths + count);
    result.counts.push_back(static_cast<uint32_t>(count));
  }
  return result;
}

nb::tuple encode_words(const tokenizer::Model& model, const In<int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const text::TextColumn words = text_column(offsets, bytes);
  EncodedWords result = without_gil([&] { return encode_column(model, words); });
  return nb::make_tuple(to_numpy(std::move(result.ids)), to_numpy(std::move(result.lengths)),
                        to_numpy(std::move(result.counts)));
}

models::TokenArrays token_arrays(const ByteView& bytes, const In<int64_t>& offsets,
                                 const In<uint8_t>& flags) {
  return {span_of(bytes), span_of(offsets), span_of(flags)};
}

}  // namespace

void bind_models(nb::module_& m) {
  nb::class_<tokenizer::Model>(m, "Model")
      .def("encode_words", &encode_words, nb::arg("offsets").noconvert(), nb::arg("data"))
      .def("largest_id", &tokenizer::Model::largest_id)
      .def_prop_ro("reads_spaces_as_marks", &tokenizer::Model::reads_spaces_as_marks);

  nb::class_<models::Unigram, tokenizer::Model>(m, "Unigram")
      .def(
          "__init__",
          [](models::Unigram* self, nb::handle tokens, const In<int64_t>& offsets, const In<uint8_t>& flags,
             const In<double>& scores, std::optional<uint32_t> unknown, bool byte_fallback,
             bool bytes_are_characters) {
            const ByteView bytes(tokens);
            new (self) models::Unigram(token_arrays(bytes, offsets, flags), span_of(scores),
                                       {unknown, byte_fallback, bytes_are_characters});
          },
          nb::arg("tokens"), nb::arg("offsets").noconvert(), nb::arg("flags").noconvert(),
          nb::arg("scores").noconvert(), nb::arg("unknown").none(), nb::arg("byte_fallback"),
          nb::arg("bytes_are_characters"));

  nb::class_<models::WordPiece, tokenizer::Model>(m, "WordPiece")
      .def(
          "__init__",
          [](models::WordPiece* self, nb::handle tokens, const In<int64_t>& offsets, const In<uint8_t>& flags,
             std::optional<uint32_t> unknown, nb::handle continuation, size_t most_characters,
             bool bytes_are_characters) {
            const ByteView bytes(tokens), prefix(continuation);
            new (self) models::WordPiece(token_arrays(bytes, offsets, flags),
                                         {unknown, span_of(prefix), most_characters, bytes_are_characters});
          },
          nb::arg("tokens"), nb::arg("offsets").noconvert(), nb::arg("flags").noconvert(),
          nb::arg("unknown").none(), nb::arg("continuation"), nb::arg("most_characters"),
          nb::arg("bytes_are_characters"));

  nb::class_<models::WordLevel, tokenizer::Model>(m, "WordLevel")
      .def(
          "__init__",
          [](models::WordLevel* self, nb::handle tokens, const In<int64_t>& offsets, const In<uint8_t>& flags,
             std::optional<uint32_t> unknown) {
            const ByteView bytes(tokens);
            new (self) models::WordLevel(token_arrays(bytes, offsets, flags), unknown);
          },
          nb::arg("tokens"), nb::arg("offsets").noconvert(), nb::arg("flags").noconvert(),
          nb::arg("unknown").none());
}

}  // namespace krill::bindings
