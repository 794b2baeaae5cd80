// WordLevel: a word is one token, or the unknown one.
//
// In: words and their ids, then words of a text. Out: an id for each. Held in memory: the words' bytes, 12
// bytes and a hash table of 8 to 16 bytes for each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "models/token_arrays.hpp"
#include "models/token_index.hpp"
#include "tokenizer/model.hpp"

namespace krill::models {

class WordLevel final : public tokenizer::Model {
 public:
  // Of equal words the last one counts. Without `unknown`, a word that is not there is an error. Throws
  // std::invalid_argument for arrays that make no sense.
  WordLevel(const TokenArrays& words, std::span<const uint32_t> ids, std::optional<uint32_t> unknown);

  std::unique_ptr<tokenizer::ModelScratch> make_scratch() const override;
  size_t encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                tokenizer::ModelScratch& scratch) const override;
  uint32_t largest_id() const override { return largest_id_; }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<int64_t> offsets_;
  std::vector<uint32_t> ids_;
  TokenIndex index_;
  std::optional<uint32_t> unknown_;
  uint32_t largest_id_;
};

}  // namespace krill::models
