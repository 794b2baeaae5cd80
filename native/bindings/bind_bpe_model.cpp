// Byte-pair encoding as a Python class: single words for tests, and texts of which every one is a word.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bpe/bpe_model.hpp"
#include "tokenizer/word_encoder.hpp"

namespace krill::bindings {

namespace {

std::string affix_of(const std::optional<nb::bytes>& affix) {
  return affix ? std::string(affix->c_str(), affix->size()) : std::string();
}

// The ids of a word and the bytes that each covers.
nb::tuple encode_word(const bpe::BpeModel& model, nb::handle data) {
  const ByteView bytes(data);
  GrowingBuffer<uint32_t> ids(bytes.size()), lengths(bytes.size());
  without_gil([&] {
    if (bytes.size() == 0) return;
    uint32_t* const out = ids.room(bytes.size());
    uint32_t* const out_lengths = lengths.room(bytes.size());
    const size_t count = model.encode(bytes.data(), bytes.size(), out, out_lengths, *model.make_scratch());
    ids.set_end(out + count);
    lengths.set_end(out_lengths + count);
  });
  return nb::make_tuple(to_numpy(std::move(ids)), to_numpy(std::move(lengths)));
}

// The ids of a column's texts, each a single word, through the cache and in pieces.
nb::tuple encode_texts(const bpe::BpeModel& model, const In<int64_t>& offsets, nb::handle data,
                       size_t cache_bytes) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  GrowingBuffer<uint32_t> ids(column.total() / 3 + 1);
  Buffer<uint32_t> lengths(column.rows);
  const tokenizer::WordStatistics found = without_gil([&] {
    std::mutex long_words;
    tokenizer::WordEncoder<uint32_t> words(model, std::make_unique<tokenizer::WholeText>(), cache_bytes,
                                           long_words);
    for (size_t row = 0; row < column.rows; ++row) {
      const size_t before = ids.size();
      words.encode(column.begin(row), column.size(row), column.readable(row), ids);
      words.finish(ids);
      lengths[row] = static_cast<uint32_t>(ids.size() - before);
    }
    return words.take_statistics();
  });
  nb::dict statistics;
  statistics["words"] = found.words;
  statistics["bytes"] = found.bytes;
  statistics["misses"] = found.misses;
  statistics["miss_bytes"] = found.miss_bytes;
  statistics["timed_bytes"] = found.timed_bytes;
  statistics["timed_nanoseconds"] = found.timed_nanoseconds;
  return nb::make_tuple(to_numpy(std::move(ids)), to_numpy(std::move(lengths)), statistics);
}

// The ids of a text that is one word, and begin and end of each in bytes, through the cache and in pieces.
nb::tuple encode_ranges(const bpe::BpeModel& model, nb::handle data) {
  const ByteView bytes(data);
  GrowingBuffer<uint32_t> ids;
  GrowingBuffer<tokenizer::TokenRange> ranges;
  without_gil([&] {
    std::mutex long_words;
    tokenizer::WordEncoder<uint32_t> words(model, std::make_unique<tokenizer::WholeText>(), 0, long_words);
    words.encode_ranges(bytes.data(), bytes.size(), ids, ranges);
  });
  GrowingBuffer<uint32_t> ends;
  for (size_t i = 0; i < ranges.size(); ++i) {
    ends.push_back(ranges[i].begin);
    ends.push_back(ranges[i].end);
  }
  return nb::make_tuple(to_numpy(std::move(ids)), to_numpy(std::move(ends)));
}

// The ends of the pieces that a word is cut into; none if it has to stay whole.
std::vector<uint32_t> cut_pieces(const bpe::BpeModel& model, nb::handle data) {
  const ByteView bytes(data);
  std::vector<uint32_t> ends(bytes.size());
  if (model.pieces() == nullptr || bytes.size() == 0) return {};
  ends.resize(model.pieces()->cut(bytes.data(), bytes.size(), 0, ends.data(), ends.size()));
  return ends;
}

}  // namespace

void bind_bpe_model(nb::module_& m) {
  nb::class_<bpe::BpeModel, tokenizer::Model>(m, "BpeModel")
      .def(
          "__init__",
          [](bpe::BpeModel* self, nb::handle tokens, const In<int64_t>& offsets, const In<uint8_t>& flags,
             const In<uint32_t>& merges, bool byte_level, bool byte_fallback, std::optional<int64_t> unk,
             bool fuse_unk, const std::optional<nb::bytes>& prefix, const std::optional<nb::bytes>& suffix,
             bool ignore_merges, bool reads_spaces_as_marks) {
            const ByteView bytes(tokens);
            const bpe::VocabularyArrays arrays{
                {bytes.data(), bytes.size()}, span_of(offsets), span_of(flags)};
            bpe::BpeOptions options;
            options.symbols.byte_level = byte_level;
            options.symbols.byte_fallback = byte_fallback;
            options.symbols.has_unk = unk.has_value();
            if (unk && *unk >= 0) {
              if (*unk > 0xffffffff) throw std::invalid_argument("the unknown token's id is too large");
              options.symbols.unk = static_cast<uint32_t>(*unk);
            }
            options.symbols.fuse_unk = fuse_unk;
            options.symbols.prefix = affix_of(prefix);
            options.symbols.suffix = affix_of(suffix);
            options.symbols.reads_spaces_as_marks = reads_spaces_as_marks;
            options.ignore_merges = ignore_merges;
            new (self) bpe::BpeModel(arrays, span_of(merges), std::move(options));
          },
          nb::arg("tokens"), nb::arg("offsets").noconvert(), nb::arg("flags").noconvert(),
          nb::arg("merges").noconvert(), nb::kw_only(), nb::arg("byte_level"),
          nb::arg("byte_fallback") = false, nb::arg("unk").none() = nb::none(), nb::arg("fuse_unk") = false,
          nb::arg("prefix").none() = nb::none(), nb::arg("suffix").none() = nb::none(),
          nb::arg("ignore_merges") = false, nb::arg("reads_spaces_as_marks") = false)
      .def("encode_word", &encode_word, nb::arg("word"))
      .def("encode_texts", &encode_texts, nb::arg("offsets").noconvert(), nb::arg("data"),
           nb::arg("cache_bytes"))
      .def("encode_ranges", &encode_ranges, nb::arg("text"))
      .def("cut_pieces", &cut_pieces, nb::arg("word"))
      .def("counts_letters", &bpe::BpeModel::counts_letters)
      .def("held_bytes", &bpe::BpeModel::held_bytes);
}

}  // namespace krill::bindings
