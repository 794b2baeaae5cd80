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

namespace nb = nanobind;
using namespace krill;
using namespace krill::bindings;

namespace {

// Text, id, and whether it is single_word, lstrip, rstrip, normalized.
using AddedArgument = std::tuple<nb::bytes, std::uint32_t, bool, bool, bool, bool>;
using OffsetsOut = nb::ndarray<nb::numpy, std::uint32_t, nb::shape<-1, 2>>;

template <class Id>
Out<Id> to_array(GrowingIds<Id>& ids) {
  const std::size_t size = ids.size();
  Id* const data = ids.release();
  return Out<Id>(data, {size}, owner_of(data));
}

std::vector<AddedToken> added_tokens(const std::vector<AddedArgument>& arguments) {
  std::vector<AddedToken> tokens;
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
      encoder_ = std::make_unique<Encoder<std::uint16_t>>(arguments...);
    else
      encoder_ = std::make_unique<Encoder<std::uint32_t>>(arguments...);
  }

  nb::tuple encode(const In<std::int64_t>& offsets, nb::handle data, std::int64_t eos) {
    const ByteView bytes(data);
    const TextColumn column = text_column(offsets, bytes);
    if (eos > std::numeric_limits<std::uint32_t>::max()) throw std::invalid_argument("eos is not an id");
    const std::optional<std::uint32_t> last =
        eos < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(eos));
    return std::visit(
        [&](auto& encoder) {
          auto runs = [&] {
            nb::gil_scoped_release release;
            return encoder->encode(column, last);
          }();
          return nb::make_tuple(to_array(runs.ids), to_numpy(std::move(runs.lengths)));
        },
        encoder_);
  }

  nb::tuple encode_offsets(nb::handle data) {
    const ByteView bytes(data);
    if (bytes.size() >= 0xffffffff) throw std::invalid_argument("a document is 4 GiB or longer");
    return std::visit(
        [&](auto& encoder) {
          auto tokens = [&] {
            nb::gil_scoped_release release;
            return encoder->encode_offsets(bytes.data(), bytes.size());
          }();
          const std::size_t count = tokens.offsets.size() / 2;
          std::uint32_t* const offsets = tokens.offsets.release();
          return nb::make_tuple(to_array(tokens.ids), OffsetsOut(offsets, {count, 2}, owner_of(offsets)));
        },
        encoder_);
  }

  nb::bytes decode(const In<std::uint32_t>& ids, bool skip_special) {
    const std::string text = [&] {
      nb::gil_scoped_release release;
      return vocabulary().decode(span_of(ids), skip_special);
    }();
    return nb::bytes(text.data(), text.size());
  }

  nb::dict statistics() {
    const WordStatistics found = std::visit([](auto& encoder) { return encoder->statistics(); }, encoder_);
    nb::dict out;
    out["words"] = found.words;
    out["bytes"] = found.bytes;
    out["misses"] = found.misses;
    out["miss_bytes"] = found.miss_bytes;
    out["timed_bytes"] = found.timed_bytes;
    out["timed_nanoseconds"] = found.timed_nanoseconds;
    return out;
  }

  std::size_t size() const { return vocabulary().size(); }

 private:
  const Vocabulary& vocabulary() const {
    return std::visit([](auto& encoder) -> const Vocabulary& { return encoder->vocabulary(); }, encoder_);
  }

  std::variant<std::unique_ptr<Encoder<std::uint16_t>>, std::unique_ptr<Encoder<std::uint32_t>>> encoder_;
};

// Whether every id that can come out fits 16 bits.
bool all_narrow(std::size_t ids, const std::vector<AddedToken>& added, const EncoderOptions& options) {
  const auto narrow = [](std::uint32_t id) { return id <= 0xffff; };
  return ids <= 0x10000 && std::ranges::all_of(added, narrow, &AddedToken::id) &&
         std::ranges::all_of(options.prefix, narrow) && std::ranges::all_of(options.suffix, narrow);
}

}  // namespace

void bind_encoder(nb::module_& m) {
  nb::class_<BpeEncoder>(m, "BpeEncoder")
      .def(
          "__init__",
          [](BpeEncoder* self, nb::handle tokens, const In<std::int64_t>& offsets,
             const In<std::uint8_t>& flags, const In<std::uint32_t>& merges,
             const std::vector<AddedArgument>& added, std::string_view pattern, bool ignore_merges,
             const std::vector<std::uint32_t>& prefix, const std::vector<std::uint32_t>& suffix,
             bool trims_offsets, bool keeps_first_space, std::size_t cache_bytes, std::size_t workers) {
            const ByteView bytes(tokens);
            const std::optional<Pattern> named = pattern_named(pattern);
            if (!named) throw std::invalid_argument("there is no such pattern");
            const VocabularyArrays arrays{{bytes.data(), bytes.size()}, span_of(offsets), span_of(flags)};
            const EncoderOptions options{*named,        ignore_merges,     prefix,      suffix,
                                         trims_offsets, keeps_first_space, cache_bytes, workers};
            const std::vector<AddedToken> tokens_added = added_tokens(added);
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
