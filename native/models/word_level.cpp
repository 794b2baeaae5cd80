#include "models/word_level.hpp"

#include <algorithm>
#include <stdexcept>

namespace krill::models {

WordLevel::WordLevel(const TokenArrays& words, std::span<const uint32_t> ids, std::optional<uint32_t> unknown)
    : bytes_(words.bytes.begin(), words.bytes.end()),
      offsets_(words.offsets.begin(), words.offsets.end()),
      ids_(ids.begin(), ids.end()),
      index_(ids.size()),
      unknown_(unknown),
      largest_id_(std::max(ids.empty() ? 0 : std::ranges::max(ids), unknown.value_or(0))) {
  words.check(TokenIndex::kNoToken - 1);
  expect(ids.size() == words.size(), "there must be one id for each word");
  for (uint32_t word = 0; word < ids_.size(); ++word) index_.insert(words, word);
}

std::unique_ptr<tokenizer::ModelScratch> WordLevel::make_scratch() const {
  return std::make_unique<tokenizer::ModelScratch>();
}

size_t WordLevel::encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                         tokenizer::ModelScratch&) const {
  const uint32_t found = index_.find(TokenArrays{bytes_, offsets_}, {word, size});
  if (found == TokenIndex::kNoToken && !unknown_)
    throw std::runtime_error("a word is not in the vocabulary, nor is the unknown token (unk_token)");
  ids[0] = found == TokenIndex::kNoToken ? *unknown_ : ids_[found];
  if (lengths != nullptr) lengths[0] = static_cast<uint32_t>(size);
  return 1;
}

}  // namespace krill::models
