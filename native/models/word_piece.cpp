#include "models/word_piece.hpp"

#include <stdexcept>

#include "check.hpp"
#include "models/characters.hpp"

namespace krill::models {

WordPiece::WordPiece(const TokenArrays& pieces, const WordPieceOptions& options)
    : trie_(pieces),
      continuation_(trie_.walk(options.continuation)),
      unknown_(options.unknown),
      most_characters_(options.most_characters),
      bytes_are_characters_(options.bytes_are_characters),
      ids_(pieces.size()) {
  expect(!unknown_ || *unknown_ < ids_, "the unknown token is not in the vocabulary");
}

std::unique_ptr<tokenizer::ModelScratch> WordPiece::make_scratch() const {
  return std::make_unique<tokenizer::ModelScratch>();
}

bool WordPiece::is_too_long(const uint8_t* word, size_t size) const {
  if (size <= most_characters_) return false;
  return bytes_are_characters_ || count_characters(word, size) > most_characters_;
}

size_t WordPiece::encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                         tokenizer::ModelScratch&) const {
  size_t count = 0;
  for (size_t begin = is_too_long(word, size) ? size + 1 : 0; begin != size; ++count) {
    ByteTrie::State state = begin == 0 ? trie_.root() : continuation_;
    uint32_t longest = ByteTrie::kNoToken;
    size_t longest_end = begin;
    for (size_t end = begin; end < size && trie_.step(state, word[end]);) {
      ++end;
      if (ByteTrie::token(state) == ByteTrie::kNoToken) continue;
      longest = ByteTrie::token(state);
      longest_end = end;
    }
    if (longest == ByteTrie::kNoToken) {
      if (!unknown_)
        throw std::runtime_error(
            "a word has no pieces, and the unknown token (unk_token) is not in the vocabulary");
      ids[0] = *unknown_;
      if (lengths != nullptr) lengths[0] = static_cast<uint32_t>(size);
      return 1;
    }
    ids[count] = longest;
    if (lengths != nullptr) lengths[count] = static_cast<uint32_t>(longest_end - begin);
    begin = longest_end;
  }
  return count;
}

}  // namespace krill::models
