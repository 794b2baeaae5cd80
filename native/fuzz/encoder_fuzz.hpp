// Drives the encoder with vocabularies, added tokens and text taken from the input, holds it to the obvious
// way to merge, and aborts where they differ: short and long merging, any cache, both widths of ids. Arrays
// that make no sense must be refused, and do no harm if they happen to make some.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bpe/bpe_model.hpp"
#include "fuzz/kernels_fuzz.hpp"
#include "text/scanner.hpp"
#include "tokenizer/encoder.hpp"

namespace krill::fuzz {

// A vocabulary that makes sense: some bytes, and merges of what was there before.
struct SmallVocabulary {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> offsets{0};
  std::vector<uint8_t> flags;
  std::vector<uint32_t> merges;

  bpe::VocabularyArrays arrays() const { return {bytes, offsets, flags}; }
  std::string token(size_t id) const {
    return {bytes.begin() + offsets[id], bytes.begin() + offsets[id + 1]};
  }
  uint32_t add(const std::string& text) {
    for (uint32_t id = 0; id < flags.size(); ++id)
      if (flags[id] != 0 && token(id) == text) return id;
    return append(text);
  }
  uint32_t append(const std::string& text) {
    bytes.insert(bytes.end(), text.begin(), text.end());
    offsets.push_back(static_cast<int64_t>(bytes.size()));
    flags.push_back(bpe::kPresent | bpe::kWord);
    return static_cast<uint32_t>(flags.size() - 1);
  }
  void add_hole() {
    offsets.push_back(offsets.back());
    flags.push_back(0);
  }
};

inline SmallVocabulary small_vocabulary(Settings& settings) {
  SmallVocabulary vocabulary;
  const bool all_bytes = settings.flag();
  for (unsigned byte = 0; byte < 256; ++byte)
    if (all_bytes || byte % 3 != 0) vocabulary.append(std::string(1, static_cast<char>(byte)));
  if (settings.flag()) vocabulary.add_hole();
  std::vector<uint32_t> known;  // what the input itself is made of, so that merges happen
  for (size_t i = 0; i < std::min<size_t>(settings.rest_size(), 24); ++i) {
    const std::string byte(1, static_cast<char>(settings.rest()[settings.rest_size() - 1 - i]));
    if (all_bytes || static_cast<uint8_t>(byte[0]) % 3 != 0) known.push_back(vocabulary.add(byte));
  }
  for (size_t count = settings.next() % 24; count > 0 && !known.empty(); --count) {
    const uint32_t left = known[settings.next() % known.size()];
    const uint32_t right = known[settings.next() % known.size()];
    const std::string joined = vocabulary.token(left) + vocabulary.token(right);
    if (joined.size() > 64) continue;
    const uint32_t id = vocabulary.add(joined);
    const auto at = settings.flag() ? vocabulary.merges.begin() : vocabulary.merges.end();
    vocabulary.merges.insert(at, {left, right, id});
    known.push_back(id);
  }
  return vocabulary;
}

// By the definition: the lowest rank, the leftmost of it, one at a time.
inline std::vector<uint32_t> merged(const SmallVocabulary& vocabulary, const std::string& word) {
  std::map<std::pair<uint32_t, uint32_t>, size_t> ranks;
  for (size_t i = 0; i + 2 < vocabulary.merges.size(); i += 3)
    ranks[{vocabulary.merges[i], vocabulary.merges[i + 1]}] = i;
  std::map<char, uint32_t> letters;
  for (uint32_t id = 0; id < vocabulary.flags.size(); ++id)
    if (vocabulary.token(id).size() == 1) letters[vocabulary.token(id)[0]] = id;
  std::vector<uint32_t> ids;
  for (const char byte : word)
    if (letters.contains(byte)) ids.push_back(letters[byte]);
  for (;;) {
    std::optional<std::pair<size_t, size_t>> best;
    for (size_t at = 0; at + 1 < ids.size(); ++at) {
      const auto found = ranks.find({ids[at], ids[at + 1]});
      if (found != ranks.end())
        best = std::min(best.value_or(std::pair(found->second, at)), {found->second, at});
    }
    if (!best) return ids;
    ids[best->second] = vocabulary.merges[best->first + 2];
    ids.erase(ids.begin() + static_cast<ptrdiff_t>(best->second) + 1);
  }
}

inline void check_merger(const SmallVocabulary& small, const std::string& word) {
  const bpe::Vocabulary vocabulary(small.arrays(), true);
  const bpe::MergeTable merges(vocabulary, small.merges);
  const bpe::Symbols symbols(vocabulary, {});
  const bpe::WordMerger merger(merges);
  const std::vector<uint32_t> wanted = merged(small, word);
  std::vector<uint32_t> ids(word.size()), lengths(word.size());
  const auto begin = [&] {
    return symbols.write(reinterpret_cast<const uint8_t*>(word.data()), word.size(), ids.data(),
                         lengths.data());
  };
  const auto check = [&](size_t count) {
    expect(std::equal(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), wanted.begin(), wanted.end()),
           "a word is not merged as defined");
  };
  bpe::MergeScratch scratch;
  check(merger.merge_long(ids.data(), begin(), lengths.data(), scratch));
  if (word.size() <= bpe::WordMerger::kShort) {
    const std::vector<uint32_t> long_lengths(lengths);
    check(merger.merge_short(ids.data(), begin(), lengths.data()));
    expect(std::equal(lengths.begin(), lengths.begin() + static_cast<ptrdiff_t>(wanted.size()),
                      long_lengths.begin()),
           "lengths differ");
  }
  for (const uint32_t id : wanted) {
    const auto token = vocabulary.bytes(id);
    expect(vocabulary.find(token.data(), token.size()) == id, "a token is not found by its bytes");
  }
}

struct Encoded {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> lengths;
  std::vector<uint32_t> offsets;  // of the first document
  bool operator==(const Encoded&) const = default;
};

// The scanner's words, whatever the bytes are.
class PatternStep final : public tokenizer::Step {
 public:
  explicit PatternStep(text::Pattern pattern) : pattern_(pattern) {}

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
             uint32_t&) const override {
    return text::scan_words(pattern_, text, size, from, ends, capacity);
  }
  size_t bytes() const override { return sizeof *this; }

 private:
  text::Pattern pattern_;
};

// A byte-level tokenizer of the vocabulary.
struct ByteLevelOptions {
  text::Pattern pattern;
  bool ignore_merges = false;
  bool trims_offsets = false;
  bool keeps_first_space = false;
};

inline tokenizer::EncoderParts byte_level_parts(const bpe::VocabularyArrays& arrays,
                                                std::span<const uint32_t> merges,
                                                std::vector<tokenizer::AddedToken> added,
                                                const ByteLevelOptions& options) {
  auto model = std::make_shared<bpe::BpeModel>(
      arrays, merges, bpe::BpeOptions{.symbols = {}, .ignore_merges = options.ignore_merges});
  tokenizer::EncoderParts parts;
  parts.tokens = {model, &model->vocabulary()};
  parts.model = std::move(model);
  parts.added = std::move(added);
  parts.steps.pre_tokenizer = std::make_shared<tokenizer::PreTokenizer>(
      std::vector<tokenizer::PreTokenizer::Item>{std::make_shared<PatternStep>(options.pattern)});
  parts.trims_offsets = options.trims_offsets;
  parts.keeps_first_space = options.keeps_first_space;
  return parts;
}

// The same tokens with spans: without guards, as ever; with a guard at every third byte, all the same bytes.
template <class Id>
void check_spans(tokenizer::Encoder<Id>& encoder, const Column& column,
                 const std::vector<uint32_t>& expected) {
  const auto total = static_cast<int64_t>(column.view().total());
  const std::vector<int64_t> begins{0}, ends{total};
  const tokenizer::Spans all{begins, ends};
  const tokenizer::SpannedBatch<Id> plain = encoder.encode_spans(column.view(), all, {});
  expect(std::equal(expected.begin(), expected.end(), plain.ids.data(), plain.ids.data() + plain.ids.size()),
         "tokens with spans differ");
  size_t at = 0;
  for (size_t row = 0; row < column.rows(); ++row)
    for (size_t i = 0; i < plain.lengths[row]; ++i, ++at)
      expect(plain.in_span[at] == (i > 0), "a token is in no span");
  std::vector<int64_t> guard_begins, guard_ends;
  for (int64_t byte = 0; byte < total; byte += 3) {
    guard_begins.push_back(byte);
    guard_ends.push_back(byte + 1);
  }
  const std::vector<int64_t> levels(guard_begins.size(), 1);
  const std::vector<uint8_t> token_levels(310, 1);
  const tokenizer::GuardedSpans guarded{{guard_begins, guard_ends}, levels, token_levels};
  const tokenizer::SpannedBatch<Id> text = encoder.encode_spans(column.view(), all, guarded);
  expect(text.ids.size() == text.in_span.size(), "a token has no flag");
}

template <class Id>
Encoded encoded(const SmallVocabulary& vocabulary, const std::vector<tokenizer::AddedToken>& added,
                const ByteLevelOptions& options, size_t cache_bytes, const Column& column) {
  tokenizer::EncoderParts parts = byte_level_parts(vocabulary.arrays(), vocabulary.merges, added, options);
  parts.prefix = {1};
  parts.suffix = {2, 3};
  tokenizer::Encoder<Id> encoder(std::move(parts), {.count = 1, .cache_bytes = cache_bytes});
  const tokenizer::EncodedBatch<Id> runs = encoder.encode(column.view(), 0);
  Encoded result{{runs.ids.data(), runs.ids.data() + runs.ids.size()},
                 {runs.lengths.data(), runs.lengths.data() + runs.lengths.size()},
                 {}};
  // Twice, so that the second time words come from the cache.
  const tokenizer::EncodedBatch<Id> again = encoder.encode(column.view(), 0);
  expect(
      std::equal(result.ids.begin(), result.ids.end(), again.ids.data(), again.ids.data() + again.ids.size()),
      "the cache changes ids");
  std::vector<uint32_t> bare;
  size_t first = 0;
  for (size_t row = 0; row < column.rows(); first += runs.lengths[row++])
    bare.insert(bare.end(), runs.ids.data() + first + 1, runs.ids.data() + first + runs.lengths[row] - 3);
  check_spans(encoder, column, bare);
  if (column.rows() > 0) {
    const tokenizer::OffsetTokens<Id> tokens =
        encoder.encode_offsets(column.view().begin(0), column.view().size(0));
    expect(tokens.ids.size() + 1 == runs.lengths[0], "offsets are of other tokens");
    expect(std::equal(tokens.ids.data(), tokens.ids.data() + tokens.ids.size(), result.ids.begin()),
           "tokens with offsets differ");
    result.offsets.assign(tokens.offsets.data(), tokens.offsets.data() + tokens.offsets.size());
  }
  return result;
}

// One string, given as often as asked for.
class RepeatedString final : public tokenizer::Strings {
 public:
  RepeatedString(std::span<const uint32_t> points, size_t rows) : points_(points), rows_(rows) {}
  size_t rows() const override { return rows_; }
  size_t characters() const override { return points_.size() * rows_; }
  text::Utf8 at(size_t) override {
    const size_t begin = utf8_.size();
    text::append_utf8(points_, utf8_);
    const size_t size = utf8_.size() - begin;
    return {utf8_.data() + begin, size, size + text::kSpareBytes};
  }

 private:
  std::span<const uint32_t> points_;
  size_t rows_;
  GrowingBuffer<uint8_t> utf8_;
};

// The bytes as letters of Latin-1 have the ids of their UTF-8.
inline void check_strings(const SmallVocabulary& vocabulary, const std::vector<tokenizer::AddedToken>& added,
                          const ByteLevelOptions& options, const Column& column) {
  tokenizer::Encoder<uint16_t> encoder(
      byte_level_parts(vocabulary.arrays(), vocabulary.merges, added, options), {});
  std::vector<uint8_t> utf8;
  for (const uint8_t letter : column.data) {
    if (letter >= 0x80) utf8.push_back(static_cast<uint8_t>(0xc0 | letter >> 6));
    utf8.push_back(letter >= 0x80 ? static_cast<uint8_t>(0x80 | (letter & 0x3f)) : letter);
  }
  const int64_t offsets[] = {0, static_cast<int64_t>(utf8.size())};
  const auto expected = encoder.encode(text::TextColumn{offsets, 1, utf8.data(), utf8.size()}, std::nullopt);
  const std::vector<uint32_t> points(column.data.begin(), column.data.end());
  RepeatedString strings(points, 2);
  const auto found = encoder.encode(strings);
  for (size_t row = 0, at = 0; row < strings.rows(); at += found.lengths[row++])
    expect(
        found.lengths[row] == expected.ids.size() &&
            std::equal(expected.ids.data(), expected.ids.data() + expected.ids.size(), found.ids.data() + at),
        "a string has other ids than its UTF-8");
}

inline std::vector<tokenizer::AddedToken> some_added(Settings& settings) {
  std::vector<tokenizer::AddedToken> added;
  for (size_t count = settings.next() % 4; count > 0; --count) {
    const uint8_t flags = settings.next();
    std::string text(1 + settings.next() % 3, ' ');
    for (char& byte : text) byte = static_cast<char>(settings.next());
    added.push_back({text, 300u + static_cast<uint32_t>(count), (flags & 1) != 0, (flags & 2) != 0,
                     (flags & 4) != 0, (flags & 8) != 0});
  }
  return added;
}

inline void check_encoder(Settings& settings) {
  const std::vector<tokenizer::AddedToken> added = some_added(settings);
  const ByteLevelOptions options{.pattern = text::kNamedPatterns[settings.next() % 5].pattern,
                                 .ignore_merges = settings.flag(),
                                 .trims_offsets = settings.flag(),
                                 .keeps_first_space = settings.flag()};
  const SmallVocabulary vocabulary = small_vocabulary(settings);
  const Column column = cut_column(settings);
  const Encoded narrow = encoded<uint16_t>(vocabulary, added, options, 0, column);
  expect(encoded<uint32_t>(vocabulary, added, options, 1 << 16, column) == narrow,
         "the width of ids changes them");
  check_strings(vocabulary, added, options, column);
  for (size_t row = 0; row < std::min<size_t>(column.rows(), 4); ++row)
    check_merger(vocabulary, column.row(row));
  const size_t several_blocks = std::min<size_t>(column.data.size(), 140);
  check_merger(vocabulary,
               {column.data.begin(), column.data.begin() + static_cast<ptrdiff_t>(several_blocks)});
}

// Numbers straight from the input: refused, or harmless.
inline void check_hostile(Settings& settings) {
  const auto numbers = [&](size_t most, unsigned limit) {
    std::vector<uint32_t> values(settings.next() % most);
    for (uint32_t& value : values) value = settings.next() % limit;
    return values;
  };
  const std::vector<uint32_t> offsets = numbers(12, 16), flags = numbers(12, 8), merges = numbers(12, 12);
  const std::vector<int64_t> wide(offsets.begin(), offsets.end());
  const std::vector<uint8_t> small(flags.begin(), flags.end());
  const Column column = cut_column(settings);
  const std::span<const uint8_t> bytes(column.data.data(),
                                       wide.empty() ? 0 : std::min<size_t>(column.data.size(), 16));
  try {
    const size_t used = wide.empty() ? 0 : std::min(bytes.size(), static_cast<size_t>(wide.back()));
    const ByteLevelOptions options{.pattern = text::Pattern::gpt2};
    tokenizer::Encoder<uint16_t> encoder(
        byte_level_parts({bytes.first(used), wide, small}, merges, {}, options), {});
    encoder.encode(column.view(), std::nullopt);
  } catch (const std::invalid_argument&) {
  }
}

inline void fuzz_encoder(const uint8_t* data, size_t size) {
  Settings settings(data, size);
  if (settings.flag())
    check_encoder(settings);
  else
    check_hostile(settings);
}

}  // namespace krill::fuzz
