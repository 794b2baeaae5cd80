// Drives BPE of all kinds with vocabularies, options and text taken from the input: whatever the bytes, a
// text that is one word has the same ids whole, in pieces, from a cache and as one of several words.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpe/bpe_model.hpp"
#include "fuzz/encoder_fuzz.hpp"
#include "fuzz/kernels_fuzz.hpp"
#include "tokenizer/word_encoder.hpp"

namespace krill::fuzz {

// Characters of the input, some of them left out, and merges of what was there before.
inline SmallVocabulary character_vocabulary(Settings& settings, const std::string& text, bool fallbacks) {
  SmallVocabulary vocabulary;
  vocabulary.append("<unk>");
  std::vector<uint32_t> known;
  const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t at = 0; at < text.size() && known.size() < 24;) {
    const bpe::TextCharacter character = bpe::next_character(data + at, text.size() - at);
    if (character.point < bpe::kNoCharacter && character.point % 5 != 0)
      known.push_back(vocabulary.add(text.substr(at, character.size)));
    at += character.size;
  }
  if (fallbacks) {
    const unsigned left_out = settings.next();
    constexpr char kDigits[] = "0123456789ABCDEF";
    for (unsigned byte = 0; byte < 256; ++byte)
      if (byte != left_out || byte % 2 == 0)
        vocabulary.append(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
  }
  if (settings.flag()) known.push_back(0);  // the unknown token takes part in merges
  for (size_t merges = settings.next() % 24; merges > 0 && !known.empty(); --merges) {
    const uint32_t left = known[settings.next() % known.size()],
                   right = known[settings.next() % known.size()];
    const uint32_t joined = vocabulary.add(vocabulary.token(left) + vocabulary.token(right));
    vocabulary.merges.insert(vocabulary.merges.end(), {left, right, joined});
    known.push_back(joined);
  }
  return vocabulary;
}

template <class Id>
std::vector<uint32_t> in_pieces(const bpe::BpeModel& model, const std::vector<std::string>& texts) {
  std::mutex long_words;
  tokenizer::WordEncoder<Id> words(model, std::make_unique<tokenizer::WholeText>(), 0, long_words);
  GrowingBuffer<Id> ids;
  for (int round = 0; round < 2; ++round)
    for (const std::string& text : texts)
      words.encode(reinterpret_cast<const uint8_t*>(text.data()), text.size(), text.size(), ids);
  words.finish(ids);
  return {ids.data(), ids.data() + ids.size()};
}

// Where tokens lie, through the cache and in pieces, is what their lengths in the whole word say.
inline void check_ranges(const bpe::BpeModel& model, const std::string& text,
                         const std::vector<uint32_t>& ids, const std::vector<uint32_t>& lengths) {
  std::mutex long_words;
  tokenizer::WordEncoder<uint32_t> words(model, std::make_unique<tokenizer::WholeText>(), 0, long_words);
  for (int round = 0; round < 2; ++round) {
    GrowingBuffer<uint32_t> found;
    GrowingBuffer<tokenizer::TokenRange> ranges;
    words.encode_ranges(reinterpret_cast<const uint8_t*>(text.data()), text.size(), found, ranges);
    expect(found.size() == ids.size() && std::equal(ids.begin(), ids.end(), found.data()),
           "ranges change ids");
    size_t at = 0;
    for (size_t i = 0; i < ids.size(); ++i) {
      expect(ranges[i].begin < ranges[i].end && ranges[i].end <= text.size(), "a range is not in the text");
      if (model.counts_letters()) continue;
      expect(ranges[i].begin == at && ranges[i].end == at + lengths[i],
             "a range is not as long as its token");
      at += lengths[i];
    }
  }
}

inline void check_model(const bpe::BpeModel& model, const std::vector<std::string>& texts) {
  const auto scratch = model.make_scratch();
  std::vector<uint32_t> whole;
  for (const std::string& text : texts) {
    if (text.empty()) continue;
    std::vector<uint32_t> ids(text.size()), lengths(text.size());
    const auto* const data = reinterpret_cast<const uint8_t*>(text.data());
    const size_t count = model.encode(data, text.size(), ids.data(), lengths.data(), *scratch);
    ids.resize(count);
    uint64_t covered = 0;
    for (size_t i = 0; i < count; ++i) covered += lengths[i];
    expect(covered <= (model.counts_letters() ? 2 : 1) * text.size(), "tokens cover more than their word");
    std::vector<uint32_t> again(text.size());
    expect(model.encode(data, text.size(), again.data(), nullptr, *scratch) == count, "lengths change ids");
    expect(std::equal(ids.begin(), ids.end(), again.begin()), "lengths change ids");
    check_ranges(model, text, ids, lengths);
    whole.insert(whole.end(), ids.begin(), ids.end());
  }
  whole.insert(whole.end(), whole.begin(), whole.begin() + static_cast<ptrdiff_t>(whole.size()));
  expect(in_pieces<uint16_t>(model, texts) == whole, "pieces or the cache change ids");
  expect(in_pieces<uint32_t>(model, texts) == whole, "pieces or the cache change ids");
}

inline std::string with_marks(std::string_view text) {
  std::string marked;
  for (const char byte : text) marked += byte == ' ' ? "\u2581" : std::string(1, byte);
  return marked;
}

// A model that reads spaces as marks gives what the other gives of the marks.
inline void check_spaces(const SmallVocabulary& vocabulary, bpe::BpeOptions options,
                         const std::vector<std::string>& texts) {
  const bpe::BpeModel plain(vocabulary.arrays(), vocabulary.merges, options);
  options.symbols.reads_spaces_as_marks = true;
  const bpe::BpeModel model(vocabulary.arrays(), vocabulary.merges, options);
  if (!model.reads_spaces_as_marks()) return;
  std::vector<std::string> marked;
  for (const std::string& text : texts) marked.push_back(with_marks(text));
  expect(in_pieces<uint32_t>(model, texts) == in_pieces<uint32_t>(plain, marked),
         "spaces are not read as marks");
}

inline void fuzz_bpe(const uint8_t* data, size_t size) {
  Settings settings(data, size);
  bpe::BpeOptions options;
  options.symbols.byte_level = settings.flag();
  options.symbols.byte_fallback = settings.flag();
  options.symbols.has_unk = settings.flag();
  options.symbols.fuse_unk = settings.flag();
  options.ignore_merges = settings.flag();
  if (options.symbols.has_unk && settings.flag()) options.symbols.unk = 0;
  if (settings.next() % 8 == 0) options.symbols.suffix = "a";
  if (settings.next() % 8 == 0) options.symbols.prefix = "a";
  SmallVocabulary vocabulary;
  if (options.symbols.byte_level) vocabulary = small_vocabulary(settings);
  const Column column = cut_column(settings);
  std::vector<std::string> texts;
  for (size_t row = 0; row < column.rows(); ++row) texts.push_back(column.row(row));
  texts.emplace_back(column.data.begin(), column.data.end());
  if (!options.symbols.byte_level)
    vocabulary = character_vocabulary(settings, with_marks(texts.back()), options.symbols.byte_fallback);
  try {
    const bpe::SymbolOptions& symbols = options.symbols;
    if (!symbols.byte_level && symbols.prefix.empty() && symbols.suffix.empty() && !options.ignore_merges)
      check_spaces(vocabulary, options, texts);
    check_model(bpe::BpeModel(vocabulary.arrays(), vocabulary.merges, options), texts);
  } catch (const std::invalid_argument&) {  // options or merges that don't fit
  } catch (const std::runtime_error&) {     // no unknown token
  }
}

}  // namespace krill::fuzz
