// Unigram: of all ways to write a word as pieces, the one with the largest sum of scores.
//
// In: pieces and their scores, then words. Out: ids, as Hugging Face's `Unigram` gives them. Held in memory:
// the trie of the pieces (see byte_trie.hpp) and 12 bytes for each; in scratch, 4 bytes for each byte of the
// longest stretch of text that no place divides where all pieces end, and 8 for each byte of the longest
// piece.
//
// Sums are doubles that are added up from the word's begin; of equal sums the one whose last piece begins
// earliest wins. A character that no piece matches alone may be unknown, with a score 10 below the lowest of
// all pieces. Neighbouring unknowns are one; if a piece has the same text, it is that piece, else with byte
// fallback the tokens of its bytes if all of them exist, else the unknown token.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/byte_trie.hpp"
#include "models/token_arrays.hpp"
#include "tokenizer/model.hpp"

namespace krill::models {

struct UnigramOptions {
  std::optional<uint32_t> unknown;  // without it, text that needs it is an error
  bool byte_fallback = false;
  bool bytes_are_characters = false;  // the text was cut by ByteLevel: one letter for each byte
};

class Unigram final : public tokenizer::Model {
 public:
  // A piece's id is its place; an empty piece is never met, but its score counts for the lowest. Throws
  // std::invalid_argument for arrays or options that make no sense.
  Unigram(const TokenArrays& pieces, std::span<const double> scores, const UnigramOptions& options);

  std::unique_ptr<tokenizer::ModelScratch> make_scratch() const override;
  size_t encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                tokenizer::ModelScratch& scratch) const override;
  uint32_t largest_id() const override {
    return static_cast<uint32_t>(std::max<size_t>(lengths_.size(), 2) - 2);
  }

  uint32_t known_by_its_text() const override { return options_.unknown.value_or(kNoToken); }

 private:
  class Scratch;
  class Output;

  void collect_byte_tokens();
  size_t add_candidates(const uint8_t* word, size_t size, size_t begin, size_t at, size_t single,
                        Scratch& scratch) const;
  void write_stretch(const uint8_t* word, size_t begin, size_t end, Scratch& scratch, Output& output) const;
  void write_unknown(const uint8_t* word, size_t begin, size_t end, Output& output) const;

  ByteTrie trie_;
  // By piece + 1: the first is for what is no piece.
  std::vector<double> scores_;
  std::vector<uint32_t> lengths_;
  size_t longest_ = 0;
  double unknown_score_;
  UnigramOptions options_;
  std::array<uint32_t, 256> byte_tokens_;
};

}  // namespace krill::models
