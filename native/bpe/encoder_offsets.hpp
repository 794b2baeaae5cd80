// The offsets of tokens in a text, in characters, as Hugging Face's library reports them.
//
// In: the tokens of one document in order, with their bytes. Out: a begin and an end for each. Held in
// memory: nothing. A token that begins or ends inside a character covers all of it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bpe/vocabulary.hpp"
#include "growing_buffer.hpp"
#include "tokenizer/word_encoder.hpp"

namespace krill::bpe {

class OffsetTracker {
 public:
  struct Trimming {
    bool spaces;            // leave spaces at either end of a token out
    bool keep_first_space;  // but a single one before the document's first token
  };

  OffsetTracker(const Vocabulary& vocabulary, const uint8_t* text, Trimming trimming,
                GrowingBuffer<uint32_t>& offsets)
      : vocabulary_(vocabulary), text_(text), trimming_(trimming), offsets_(offsets) {}

  // A token of a word, and the bytes that it stands for.
  void add_token(uint32_t id, const tokenizer::TokenRange& range);

  // An added token, with the whitespace that it took.
  void add_added(size_t begin, size_t end);

 private:
  // The token from the character of byte `first` to that of byte `last`.
  void add(size_t first, size_t last, size_t spaces_before, size_t spaces_behind);
  size_t character_of(size_t byte);

  const Vocabulary& vocabulary_;
  const uint8_t* text_;
  Trimming trimming_;
  GrowingBuffer<uint32_t>& offsets_;
  size_t tokens_ = 0;
  size_t counted_to_ = 0;  // bytes
  size_t counted_ = 0;     // characters that begin before
};

}  // namespace krill::bpe
