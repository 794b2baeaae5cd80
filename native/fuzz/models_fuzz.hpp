// Drives the models of tokenizers with vocabularies and words taken from the input, and aborts where they
// break their word: ids are in the vocabulary, lengths add up to the word, and on text that is UTF-8 the
// result is that of the plain definition. Arrays that make no sense must be refused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "models/unigram.hpp"
#include "models/word_level.hpp"
#include "models/word_piece.hpp"
#include "text/utf8.hpp"

namespace krill::fuzz {

struct FuzzedPieces {
  std::vector<uint8_t> bytes;
  std::vector<int64_t> offsets{0};
  std::vector<double> scores;
  std::vector<uint8_t> flags;

  models::TokenArrays arrays() const { return {bytes, offsets, flags}; }
  size_t size() const { return flags.size(); }
  std::string text(size_t piece) const {
    return {bytes.begin() + offsets[piece], bytes.begin() + offsets[piece + 1]};
  }
  void add(const std::string& text, double score) {
    bytes.insert(bytes.end(), text.begin(), text.end());
    offsets.push_back(static_cast<int64_t>(bytes.size()));
    scores.push_back(score);
    flags.push_back(bpe::kPresent | bpe::kWord);
  }
};

// Pieces that stand in the text itself, so that many match, and the names of some bytes.
inline FuzzedPieces fuzzed_pieces(Settings& settings) {
  FuzzedPieces pieces;
  pieces.add("<unk>", -1);
  const size_t count = settings.next() % 24;
  for (size_t i = 0; i < count && settings.rest_size() > 0; ++i) {
    const uint8_t place = settings.next(), length = settings.next(), score = settings.next();
    const std::string rest(settings.rest(), settings.rest() + settings.rest_size());
    pieces.add(rest.substr(place % (rest.size() + 1), length % 7), -0.25 * (score % 9));
  }
  const unsigned named = settings.next();
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    if (named % 4 == 1 || (named % 4 == 2 && byte != named)) pieces.add(name, -9);
  }
  return pieces;
}

struct ModelTokens {
  std::vector<uint32_t> ids;
  std::vector<uint32_t> lengths;
};

inline ModelTokens model_tokens(const tokenizer::Model& model, const std::string& word,
                                tokenizer::ModelScratch& scratch) {
  ModelTokens result{std::vector<uint32_t>(word.size()), std::vector<uint32_t>(word.size())};
  const std::vector<uint8_t> exact(word.begin(), word.end());
  const size_t count =
      model.encode(exact.data(), exact.size(), result.ids.data(), result.lengths.data(), scratch);
  expect(count > 0 && count <= word.size(), "models: a word has no tokens, or too many");
  std::vector<uint32_t> only_ids(word.size());
  expect(model.encode(exact.data(), exact.size(), only_ids.data(), nullptr, scratch) == count,
         "models: lengths change the result");
  result.ids.resize(count);
  result.lengths.resize(count);
  expect(std::equal(result.ids.begin(), result.ids.end(), only_ids.begin()), "models: other ids");
  expect(std::accumulate(result.lengths.begin(), result.lengths.end(), size_t{0}) == word.size(),
         "models: lengths don't add up");
  for (const uint32_t id : result.ids) expect(id <= model.largest_id(), "models: an id is too large");
  return result;
}

// The best sum of a word's pieces, by trying all pieces at all places; unknown characters count too.
inline double best_unigram_sum(const FuzzedPieces& pieces, const std::string& word, double unknown_score) {
  std::map<std::string, double> scores;
  for (size_t piece = 0; piece < pieces.size(); ++piece)
    if (pieces.offsets[piece] != pieces.offsets[piece + 1]) scores[pieces.text(piece)] = pieces.scores[piece];
  std::vector<std::optional<double>> best(word.size() + 1);
  best[0] = 0.0;
  const auto is_inside = [&](size_t at) { return at < word.size() && (word[at] & 0xc0) == 0x80; };
  for (size_t begin = 0; begin < word.size(); ++begin) {
    if (is_inside(begin)) continue;
    size_t single = begin + 1;
    while (is_inside(single)) ++single;
    const auto offer = [&](size_t end, double score) {
      if (!best[end] || *best[begin] + score > *best[end]) best[end] = *best[begin] + score;
    };
    for (size_t end = begin + 1; end <= word.size(); ++end)
      if (const auto found = scores.find(word.substr(begin, end - begin));
          found != scores.end() && !is_inside(end))
        offer(end, found->second);
    if (!scores.contains(word.substr(begin, single - begin))) offer(single, unknown_score);
  }
  return *best[word.size()];
}

inline void fuzz_unigram(const FuzzedPieces& pieces, const std::string& word, unsigned options) {
  const bool bytes_are_characters = (options & 2) != 0;
  const models::UnigramOptions chosen{(options & 4) != 0 ? std::nullopt : std::optional<uint32_t>(0),
                                      (options & 3) == 1, bytes_are_characters};
  const models::Unigram model(pieces.arrays(), pieces.scores, chosen);
  const auto scratch = model.make_scratch();
  try {
    const ModelTokens result = model_tokens(model, word, *scratch);
    const double unknown = std::ranges::min(pieces.scores) - 10;
    const bool is_text =
        text::utf8_prefix(reinterpret_cast<const uint8_t*>(word.data()), word.size()).bytes == word.size();
    if (!is_text || bytes_are_characters || chosen.byte_fallback) return;
    // Quarters are added without rounding, so the sum is the same in any order.
    double sum = 0;
    size_t at = 0;
    for (size_t i = 0; i < result.ids.size(); at += result.lengths[i++]) {
      if (pieces.text(result.ids[i]) == word.substr(at, result.lengths[i]) && result.ids[i] != 0)
        sum += pieces.scores[result.ids[i]];
      else
        return;  // an unknown run, which may hold the text `<unk>` and unknown characters
    }
    expect(sum == best_unigram_sum(pieces, word, unknown), "unigram: not the best sum");
  } catch (const std::runtime_error&) {
    expect(!chosen.unknown, "unigram: an unknown token, but an error");
  }
}

inline void fuzz_word_piece(const FuzzedPieces& pieces, const std::string& word, unsigned options) {
  const std::string continuation =
      (options & 8) != 0 ? "" : pieces.text(options % pieces.size()).substr(0, 2);
  const std::vector<uint8_t> prefix(continuation.begin(), continuation.end());
  const models::WordPiece model(pieces.arrays(), {0, prefix, 4 + options % 64, false});
  const auto scratch = model.make_scratch();
  const ModelTokens result = model_tokens(model, word, *scratch);
  size_t at = 0;
  for (size_t i = 0; i < result.ids.size() && result.ids.size() > 1; at += result.lengths[i++]) {
    const std::string text = (at == 0 ? "" : continuation) + word.substr(at, result.lengths[i]);
    bool is_piece = false;
    for (size_t piece = 0; piece < pieces.size(); ++piece)
      is_piece |= piece == result.ids[i] && pieces.text(piece) == text;
    expect(is_piece, "word piece: not a piece");
  }
}

inline void fuzz_models(const uint8_t* data, size_t size) {
  Settings settings(data, size);
  const unsigned options = settings.next();
  const FuzzedPieces pieces = fuzzed_pieces(settings);
  const std::string word(settings.rest(), settings.rest() + settings.rest_size());
  if (word.empty()) return;
  fuzz_unigram(pieces, word, options);
  fuzz_word_piece(pieces, word, options);
  const models::WordLevel words(pieces.arrays(), 0);
  const auto scratch = words.make_scratch();
  for (size_t piece = 0; piece < pieces.size(); ++piece)
    if (const std::string text = pieces.text(piece); !text.empty())
      expect(model_tokens(words, text, *scratch).ids.size() == 1, "word level: not one token");
  try {  // offsets that are noise
    std::vector<int64_t> offsets(1 + size / 8);
    std::memcpy(offsets.data(), data, size / 8 * 8);
    if (options % 2 == 0) offsets[0] = 0;
    const models::TokenArrays noise{pieces.bytes, offsets, pieces.flags};
    const models::ByteTrie trie(noise);
    (void)trie.find(pieces.bytes);
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace krill::fuzz
