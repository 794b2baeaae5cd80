// The offsets of tokens in a text, in characters, as Hugging Face's library reports them.
//
// In: the parts of one document in order, with their ids. Out: a begin and an end for each id. Held in
// memory: the map of one word where the vocabulary lacks bytes. A token that begins or ends inside a
// character covers all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpe/vocabulary.hpp"
#include "growing_buffer.hpp"

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

  // The tokens of the word from `begin` to `end`.
  template <class Id>
  void add_word(size_t begin, size_t end, std::span<const Id> ids) {
    if (!vocabulary_.covers_all_bytes()) map_word(begin, end);
    size_t at = 0;
    for (const Id id : ids) at = add_token(begin, at, vocabulary_.bytes(id));
  }

  // An added token, with the whitespace that it took.
  void add_added(size_t begin, size_t end);

 private:
  void map_word(size_t begin, size_t end);
  size_t add_token(size_t word, size_t at, std::span<const uint8_t> token);
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
  std::vector<size_t> map_;
};

}  // namespace krill::bpe
