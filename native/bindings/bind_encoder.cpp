// The native encoder as one Python class, whichever type its ids have. Encoding releases the GIL.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>
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
#include <utility>
#include <variant>
#include <vector>

#include "bindings/arrays.hpp"
#include "bpe/encoder.hpp"

namespace krill::bindings {

namespace {

// Text, id, and whether it is single_word, lstrip, rstrip, normalized.
using AddedArgument = std::tuple<nb::bytes, uint32_t, bool, bool, bool, bool>;
using OffsetsOut = nb::ndarray<nb::numpy, uint32_t, nb::shape<-1, 2>>;

std::vector<bpe::AddedToken> added_tokens(const std::vector<AddedArgument>& arguments) {
  std::vector<bpe::AddedToken> tokens;
  for (const auto& [text, id, single_word, lstrip, rstrip, normalized] : arguments)
    tokens.push_back(
        {{static_cast<const char*>(text.data()), text.size()}, id, single_word, lstrip, rstrip, normalized});
  return tokens;
}

class BpeEncoder {
 public:
  template <class... Arguments>
  BpeEncoder(bool narrow, const Arguments&... arguments) {
    if (narrow)
      encoder_ = std::make_unique<bpe::Encoder<uint16_t>>(arguments...);
    else
      encoder_ = std::make_unique<bpe::Encoder<uint32_t>>(arguments...);
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

  nb::bytes decode(const In<uint32_t>& ids, bool skip_special) {
    const std::string text = without_gil([&] { return vocabulary().decode(span_of(ids), skip_special); });
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

  size_t size() const { return vocabulary().size(); }

 private:
  const bpe::Vocabulary& vocabulary() const {
    return std::visit([](auto& encoder) -> const bpe::Vocabulary& { return encoder->vocabulary(); },
                      encoder_);
  }

  std::variant<std::unique_ptr<bpe::Encoder<uint16_t>>, std::unique_ptr<bpe::Encoder<uint32_t>>> encoder_;
};

// Whether every id that can come out fits 16 bits.
bool all_narrow(size_t ids, const std::vector<bpe::AddedToken>& added, const bpe::EncoderOptions& options) {
  const auto narrow = [](uint32_t id) { return id <= 0xffff; };
  return ids <= 0x10000 && std::ranges::all_of(added, narrow, &bpe::AddedToken::id) &&
         std::ranges::all_of(options.prefix, narrow) && std::ranges::all_of(options.suffix, narrow);
}

}  // namespace

void bind_encoder(nb::module_& m) {
  nb::class_<BpeEncoder>(m, "BpeEncoder")
      .def(
          "__init__",
          [](BpeEncoder* self, nb::handle tokens, const In<int64_t>& offsets, const In<uint8_t>& flags,
             const In<uint32_t>& merges, const std::vector<AddedArgument>& added, std::string_view pattern,
             bool ignore_merges, const std::vector<uint32_t>& prefix, const std::vector<uint32_t>& suffix,
             bool trims_offsets, bool keeps_first_space, size_t cache_bytes, size_t workers) {
            const ByteView bytes(tokens);
            const std::optional<text::Pattern> named = text::pattern_named(pattern);
            if (!named) throw std::invalid_argument("there is no such pattern");
            const bpe::VocabularyArrays arrays{
                {bytes.data(), bytes.size()}, span_of(offsets), span_of(flags)};
            const bpe::EncoderOptions options{*named,        ignore_merges,     prefix,      suffix,
                                              trims_offsets, keeps_first_space, cache_bytes, workers};
            const std::vector<bpe::AddedToken> tokens_added = added_tokens(added);
            const bool narrow = all_narrow(flags.size(), tokens_added, options);
            new (self) BpeEncoder(narrow, arrays, span_of(merges), tokens_added, options);
          },
          nb::arg("tokens"), nb::arg("offsets").noconvert(), nb::arg("flags").noconvert(),
          nb::arg("merges").noconvert(), nb::arg("added"), nb::arg("pattern"), nb::arg("ignore_merges"),
          nb::arg("prefix"), nb::arg("suffix"), nb::arg("trims_offsets"), nb::arg("keeps_first_space"),
          nb::arg("cache_bytes"), nb::arg("workers"))
      .def("encode", &BpeEncoder::encode, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("eos"))
      .def("encode_offsets", &BpeEncoder::encode_offsets, nb::arg("data"))
      .def("decode", &BpeEncoder::decode, nb::arg("ids").noconvert(), nb::arg("skip_special"))
      .def("statistics", &BpeEncoder::statistics)
      .def("__len__", &BpeEncoder::size);
}

}  // namespace krill::bindings
