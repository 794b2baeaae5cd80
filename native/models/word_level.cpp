#include "models/word_level.hpp"

#include <stdexcept>

#include "check.hpp"

namespace krill::models {

WordLevel::WordLevel(const TokenArrays& words, std::optional<uint32_t> unknown)
    : trie_(words), unknown_(unknown), ids_(words.size()) {
  expect(!unknown_ || *unknown_ < ids_, "the unknown token is not in the vocabulary");
}

std::unique_ptr<tokenizer::ModelScratch> WordLevel::make_scratch() const {
  return std::make_unique<tokenizer::ModelScratch>();
}

size_t WordLevel::encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                         tokenizer::ModelScratch&) const {
  const uint32_t found = trie_.find({word, size});
  if (found == ByteTrie::kNoToken && !unknown_)
    throw std::runtime_error("a word is not in the vocabulary, nor is the unknown token (unk_token)");
  ids[0] = found == ByteTrie::kNoToken ? *unknown_ : found;
  if (lengths != nullptr) lengths[0] = static_cast<uint32_t>(size);
  return 1;
}

}  // namespace krill::models
