// WordPiece: the longest piece that a word begins with, then the longest that the rest begins with, and so
// on.
//
// In: pieces, then words. Out: ids, as Hugging Face's `WordPiece` gives them: a word with a
// rest that no piece begins, or with too many characters, is the unknown token as a whole. Held in memory:
// the trie of the pieces (see byte_trie.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "models/byte_trie.hpp"
#include "models/token_arrays.hpp"
#include "tokenizer/model.hpp"

namespace krill::models {

struct WordPieceOptions {
  std::optional<uint32_t> unknown;        // without it, a word that needs it is an error
  std::span<const uint8_t> continuation;  // what pieces begin with that don't begin a word
  size_t most_characters = 100;
  bool bytes_are_characters = false;  // the text was cut by ByteLevel: one letter for each byte
};

class WordPiece final : public tokenizer::Model {
 public:
  // Throws std::invalid_argument for arrays that make no sense.
  WordPiece(const TokenArrays& pieces, const WordPieceOptions& options);

  std::unique_ptr<tokenizer::ModelScratch> make_scratch() const override;
  size_t encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                tokenizer::ModelScratch& scratch) const override;
  uint32_t largest_id() const override { return static_cast<uint32_t>(ids_ == 0 ? 0 : ids_ - 1); }

 private:
  bool is_too_long(const uint8_t* word, size_t size) const;

  ByteTrie trie_;
  ByteTrie::State continuation_;
  std::optional<uint32_t> unknown_;
  size_t most_characters_;
  bool bytes_are_characters_;
  size_t ids_;
};

}  // namespace krill::models
