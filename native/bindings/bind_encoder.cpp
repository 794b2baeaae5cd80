// A tokenizer's encoder as one Python class, whichever type its ids have. Encoding releases the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/arrays.hpp"
#include "bpe/bpe_model.hpp"
#include "normalize/normalizer.hpp"
#include "text/code_points.hpp"
#include "tokenizer/decoders.hpp"
#include "tokenizer/encoder.hpp"

namespace krill::bindings {

namespace {

// Text, id, and whether it is single_word, lstrip, rstrip, normalized.
using AddedArgument = std::tuple<nb::bytes, uint32_t, bool, bool, bool, bool>;
using OffsetsOut = nb::ndarray<nb::numpy, uint32_t, nb::shape<-1, 2>>;

using SpansIn = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

std::span<const int64_t> row_of(const SpansIn& spans, size_t rows, size_t row) {
  if (spans.shape(0) != rows) throw std::invalid_argument("spans have a row for each of their numbers");
  return {spans.data() + row * spans.shape(1), spans.shape(1)};
}

std::vector<tokenizer::AddedToken> added_tokens(const std::vector<AddedArgument>& arguments) {
  std::vector<tokenizer::AddedToken> tokens;
  for (const auto& [text, id, single_word, lstrip, rstrip, normalized] : arguments)
    tokens.push_back(
        {{static_cast<const char*>(text.data()), text.size()}, id, single_word, lstrip, rstrip, normalized});
  return tokens;
}

// What an id decodes to in place of its token, and whether it is special then.
using DecodedArgument = std::tuple<uint32_t, nb::bytes, bool>;
struct DecodedToken {
  std::string text;
  bool special;
};

std::unordered_map<uint32_t, DecodedToken> decoded_tokens(const std::vector<DecodedArgument>& arguments) {
  std::unordered_map<uint32_t, DecodedToken> tokens;
  for (const auto& [id, text, special] : arguments)
    tokens[id] = {{static_cast<const char*>(text.data()), text.size()}, special};
  return tokens;
}

// A normalizer and a pre-tokenizer, or neither.
using StepsArgument = std::tuple<std::optional<std::shared_ptr<normalize::Normalizer>>,
                                 std::optional<std::shared_ptr<tokenizer::PreTokenizer>>>;

std::optional<tokenizer::Steps> steps_of(const std::optional<StepsArgument>& argument) {
  if (!argument) return {};
  return tokenizer::Steps{std::get<0>(*argument).value_or(nullptr), std::get<1>(*argument).value_or(nullptr)};
}

// Strings [begin, end) of a tuple, by what the stable ABI has. Its UTF-8 of a string that is not ASCII would
// stay for as long as the string lives; so characters are copied, some at a time, with the GIL. Over strings
// in their own memory that costs up to a tenth of encoding Latin letters, 30 ns for a short string, else
// nothing.
class TupleStrings final : public tokenizer::Strings {
 public:
  // With the GIL; the tuple has to stay.
  TupleStrings(const nb::tuple& texts, size_t begin, size_t end) : texts_(texts), begin_(begin) {
    sizes_.reserve(end - begin);
    for (size_t row = begin; row < end; ++row) sizes_.push_back(size_of(texts[row]));
    for (const size_t size : sizes_) characters_ += size;
    if (!sizes_.empty()) read_group();
  }

  size_t rows() const override { return sizes_.size(); }
  size_t characters() const override { return characters_; }

  text::Utf8 at(size_t row) override {
    if (row >= group_begin_ + group_.size()) {
      const nb::gil_scoped_acquire gil;
      read_group();
    }
    const View& view = group_[row - group_begin_];
    if (view.ascii != nullptr) return {view.ascii, view.size, view.size};
    return {bytes_.data() + view.begin, view.size, bytes_.size() - view.begin + text::kSpareBytes};
  }

 private:
  // Often enough that little is held, and seldom enough that threads do not wait for the GIL.
  static constexpr size_t kGroupCharacters = 1 << 17;
  static constexpr size_t kPartCharacters = 1 << 13;
  // To ask a string whether it is ASCII takes as long as to copy so many characters.
  static constexpr size_t kShort = 256;

  struct View {
    const uint8_t* ascii;  // or null
    size_t begin;          // in `bytes_`
    size_t size;
  };

  static size_t size_of(nb::handle text) {
    if (!PyUnicode_Check(text.ptr())) throw nb::type_error("a text is not a string");
    const auto size = static_cast<size_t>(PyUnicode_GetLength(text.ptr()));
    if (size >= 0xffffffff) throw std::invalid_argument("a document is 4 GiB or longer");
    return size;
  }

  void read_group() {
    group_begin_ += group_.size();
    group_.clear();
    bytes_.truncate(0);
    size_t characters = 0;
    for (size_t row = group_begin_; row < sizes_.size(); ++row) {
      const nb::handle text = PyTuple_GetItem(texts_.ptr(), static_cast<Py_ssize_t>(begin_ + row));
      const size_t size = sizes_[row];
      if (size > kShort && nb::cast<bool>(text.attr("isascii")())) {
        group_.push_back({ascii_of(text), 0, size});
        continue;
      }
      if (!group_.empty() && characters + size > kGroupCharacters) return;
      characters += size;
      const size_t begin = bytes_.size();
      copy(text, size);
      group_.push_back({nullptr, begin, bytes_.size() - begin});
    }
  }

  // An ASCII string's own memory.
  static const uint8_t* ascii_of(nb::handle text) {
    const char* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), nullptr);
    if (bytes == nullptr) throw nb::python_error();
    return reinterpret_cast<const uint8_t*>(bytes);
  }

  void copy(nb::handle text, size_t size) {
    if (size <= kPartCharacters) return copy_part(text, size);
    for (size_t at = 0; at < size; at += kPartCharacters) {
      const size_t end = std::min(at + kPartCharacters, size);
      const auto part = nb::steal(
          PyUnicode_Substring(text.ptr(), static_cast<Py_ssize_t>(at), static_cast<Py_ssize_t>(end)));
      if (!part.is_valid()) throw nb::python_error();
      copy_part(part, end - at);
    }
  }

  void copy_part(nb::handle text, size_t size) {
    const std::span<uint32_t> points = points_.resize_for_overwrite(size);
    if (size != 0 && PyUnicode_AsUCS4(text.ptr(), points.data(), static_cast<Py_ssize_t>(size), 0) == nullptr)
      throw nb::python_error();
    text::append_utf8(points, bytes_);
  }

  nb::handle texts_;
  size_t begin_;
  std::vector<size_t> sizes_;
  size_t characters_ = 0;
  size_t group_begin_ = 0;  // its first row
  std::vector<View> group_;
  GrowingBuffer<uint32_t> points_;
  GrowingBuffer<uint8_t> bytes_;
};

class BoundEncoder {
 public:
  BoundEncoder(tokenizer::EncoderParts parts, const tokenizer::EncoderWorkers& workers,
               std::unordered_map<uint32_t, DecodedToken> decoded)
      : decoded_(std::move(decoded)) {
    if (tokenizer::largest_id(parts) <= 0xffff && parts.tokens->size() <= 0x10000)
      encoder_ = std::make_unique<tokenizer::Encoder<uint16_t>>(std::move(parts), workers);
    else
      encoder_ = std::make_unique<tokenizer::Encoder<uint32_t>>(std::move(parts), workers);
  }

  nb::tuple encode(const In<int64_t>& offsets, nb::handle data, int64_t eos) {
    const ByteView bytes(data);
    const text::TextColumn column = text_column(offsets, bytes);
    if (eos > std::numeric_limits<uint32_t>::max()) throw std::invalid_argument("eos is not an id");
    const std::optional<uint32_t> last = eos < 0 ? std::nullopt : std::optional(static_cast<uint32_t>(eos));
    return std::visit(
        [&](auto& encoder) {
          auto batch = without_gil([&] { return encoder->encode(column, last); });
          return nb::make_tuple(to_numpy(std::move(batch.ids)), to_numpy(std::move(batch.lengths)));
        },
        encoder_);
  }

  // Strings [begin, end) of a tuple, which keeps them alive, as 32-bit ids.
  nb::tuple encode_strings(const nb::tuple& texts, size_t begin, size_t end) {
    if (begin > end || end > texts.size()) throw std::invalid_argument("there are not as many strings");
    TupleStrings strings(texts, begin, end);
    return std::visit(
        [&](auto& encoder) {
          auto batch = without_gil([&] { return encoder->encode(strings); });
          return nb::make_tuple(to_numpy(std::move(batch.ids)), to_numpy(std::move(batch.lengths)));
        },
        encoder_);
  }

  nb::tuple encode_offsets(nb::handle data) {
    const ByteView bytes(data);
    if (bytes.size() >= 0xffffffff) throw std::invalid_argument("a document is 4 GiB or longer");
    return std::visit(
        [&](auto& encoder) {
          auto tokens = without_gil([&] { return encoder->encode_offsets(bytes.data(), bytes.size()); });
          tokens.offsets.shrink_to_fit();
          const size_t count = tokens.offsets.size() / 2;
          uint32_t* const offsets = tokens.offsets.data();
          return nb::make_tuple(to_numpy(std::move(tokens.ids)),
                                OffsetsOut(offsets, {count, 2}, owner_of(std::move(tokens.offsets))));
        },
        encoder_);
  }

  nb::tuple encode_spans(const In<int64_t>& offsets, nb::handle data, const SpansIn& spans,
                         const SpansIn& guards, const In<uint8_t>& token_levels) {
    const ByteView bytes(data);
    const text::TextColumn column = text_column(offsets, bytes);
    const tokenizer::Spans in{row_of(spans, 2, 0), row_of(spans, 2, 1)};
    const tokenizer::GuardedSpans guarded{
        {row_of(guards, 3, 0), row_of(guards, 3, 1)}, row_of(guards, 3, 2), span_of(token_levels)};
    return std::visit(
        [&](auto& encoder) {
          auto batch = without_gil([&] { return encoder->encode_spans(column, in, guarded); });
          return nb::make_tuple(to_numpy(std::move(batch.ids)), to_numpy(std::move(batch.lengths)),
                                to_numpy(std::move(batch.in_span)), to_numpy(std::move(batch.imitated)));
        },
        encoder_);
  }

  nb::bytes decode(const In<uint32_t>& ids, bool skip_special) {
    const std::string text = without_gil([&] {
      std::string joined;
      for (const std::string_view token : texts_of(span_of(ids), skip_special)) joined += token;
      return joined;
    });
    return nb::bytes(text.data(), text.size());
  }

  // The same through a decoder; tokens are text here.
  nb::bytes decode_with(const In<uint32_t>& ids, bool skip_special, const tokenizer::Decoder& decoder) {
    const std::string text =
        without_gil([&] { return decoder.decode(texts_of(span_of(ids), skip_special)); });
    return nb::bytes(text.data(), text.size());
  }

  nb::dict statistics() {
    const tokenizer::WordStatistics found =
        std::visit([](auto& encoder) { return encoder->statistics(); }, encoder_);
    nb::dict out;
    out["words"] = found.words;
    out["bytes"] = found.bytes;
    out["misses"] = found.misses;
    out["miss_bytes"] = found.miss_bytes;
    out["timed_bytes"] = found.timed_bytes;
    out["timed_nanoseconds"] = found.timed_nanoseconds;
    return out;
  }

  void release() {
    std::visit([](auto& encoder) { encoder->release(); }, encoder_);
  }

  size_t size() const { return tokens().size(); }

 private:
  const bpe::Vocabulary& tokens() const {
    return std::visit([](auto& encoder) -> const bpe::Vocabulary& { return encoder->tokens(); }, encoder_);
  }

  // What ids decode to; those that are not in use are passed over.
  std::vector<std::string_view> texts_of(std::span<const uint32_t> ids, bool skip_special) const {
    std::vector<std::string_view> texts;
    texts.reserve(ids.size());
    for (const uint32_t id : ids) {
      if (id >= tokens().size()) throw std::out_of_range("an id is not in the vocabulary");
      const auto other = decoded_.find(id);
      const bool is_special =
          other == decoded_.end() ? tokens().has(id, bpe::kSpecial) : other->second.special;
      if (!tokens().has(id, bpe::kPresent) || (skip_special && is_special)) continue;
      const std::span<const uint8_t> token = tokens().bytes(id);
      texts.push_back(other == decoded_.end()
                          ? std::string_view(reinterpret_cast<const char*>(token.data()), token.size())
                          : other->second.text);
    }
    return texts;
  }

  std::variant<std::unique_ptr<tokenizer::Encoder<uint16_t>>, std::unique_ptr<tokenizer::Encoder<uint32_t>>>
      encoder_;
  std::unordered_map<uint32_t, DecodedToken> decoded_;
};

// The texts of all ids: those of a BPE model are its own.
std::shared_ptr<const bpe::Vocabulary> tokens_of(const std::shared_ptr<tokenizer::Model>& model,
                                                 const bpe::VocabularyArrays& arrays) {
  if (const auto* bpe_model = dynamic_cast<const bpe::BpeModel*>(model.get()))
    return {model, &bpe_model->vocabulary()};
  return std::make_shared<bpe::Vocabulary>(arrays, false, false);
}

}  // namespace

void bind_encoder(nb::module_& m) {
  nb::class_<BoundEncoder>(m, "Encoder")
      .def(
          "__init__",
          [](BoundEncoder* self, const std::shared_ptr<tokenizer::Model>& model, nb::handle tokens,
             const In<int64_t>& offsets, const In<uint8_t>& flags, bool byte_level,
             const std::shared_ptr<normalize::Normalizer>& normalizer,
             const std::vector<AddedArgument>& added, const std::vector<DecodedArgument>& decoded,
             const std::shared_ptr<tokenizer::PreTokenizer>& pre_tokenizer,
             const std::optional<StepsArgument>& unmarked, const std::vector<uint32_t>& prefix,
             const std::vector<uint32_t>& suffix, bool trims_offsets, bool keeps_first_space,
             size_t cache_bytes, size_t workers) {
            const ByteView bytes(tokens);
            const bpe::VocabularyArrays arrays{
                {bytes.data(), bytes.size()}, span_of(offsets), span_of(flags)};
            new (self) BoundEncoder({model,
                                     tokens_of(model, arrays),
                                     byte_level,
                                     {normalizer, pre_tokenizer},
                                     steps_of(unmarked),
                                     added_tokens(added),
                                     prefix,
                                     suffix,
                                     trims_offsets,
                                     keeps_first_space},
                                    {workers, cache_bytes}, decoded_tokens(decoded));
          },
          nb::arg("model"), nb::arg("tokens"), nb::arg("offsets").noconvert(), nb::arg("flags").noconvert(),
          nb::kw_only(), nb::arg("byte_level"), nb::arg("normalizer").none(), nb::arg("added"),
          nb::arg("decoded"), nb::arg("pre_tokenizer").none(), nb::arg("unmarked").none() = nb::none(),
          nb::arg("prefix"), nb::arg("suffix"), nb::arg("trims_offsets"), nb::arg("keeps_first_space"),
          nb::arg("cache_bytes"), nb::arg("workers"))
      .def("encode", &BoundEncoder::encode, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("eos"))
      .def("encode_strings", &BoundEncoder::encode_strings, nb::arg("texts"), nb::arg("begin"),
           nb::arg("end"))
      .def("encode_spans", &BoundEncoder::encode_spans, nb::arg("offsets").noconvert(), nb::arg("data"),
           nb::arg("spans").noconvert(), nb::arg("guards").noconvert(), nb::arg("token_levels").noconvert())
      .def("encode_offsets", &BoundEncoder::encode_offsets, nb::arg("data"))
      .def("decode", &BoundEncoder::decode, nb::arg("ids").noconvert(), nb::arg("skip_special"))
      .def("decode_with", &BoundEncoder::decode_with, nb::arg("ids").noconvert(), nb::arg("skip_special"),
           nb::arg("decoder"))
      .def("statistics", &BoundEncoder::statistics)
      .def("release", &BoundEncoder::release)
      .def("__len__", &BoundEncoder::size);
}

}  // namespace krill::bindings
