// WordLevel: a word is one token, or the unknown one.
//
// In: the vocabulary, then words. Out: an id for each. Held in memory: the trie of the vocabulary (see
// byte_trie.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "models/byte_trie.hpp"
#include "models/token_arrays.hpp"
#include "tokenizer/model.hpp"

namespace krill::models {

class WordLevel final : public tokenizer::Model {
 public:
  // Without `unknown`, a word that is not there is an error. Throws std::invalid_argument for arrays that
  // make no sense.
  WordLevel(const TokenArrays& words, std::optional<uint32_t> unknown);

  std::unique_ptr<tokenizer::ModelScratch> make_scratch() const override;
  size_t encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                tokenizer::ModelScratch& scratch) const override;
  uint32_t largest_id() const override { return static_cast<uint32_t>(ids_ == 0 ? 0 : ids_ - 1); }

 private:
  ByteTrie trie_;
  std::optional<uint32_t> unknown_;
  size_t ids_;
};

}  // namespace krill::models
