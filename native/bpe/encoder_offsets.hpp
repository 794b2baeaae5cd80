// Where tokens stand in a text, in characters, as Hugging Face's library tells it.
//
// In: the parts of one document in order, with their ids. Out: a begin and an end for each id. Held in
// memory: the map of one word where the vocabulary lacks bytes. A token that begins or ends inside a
// character has it whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bpe/encoder_ids.hpp"
#include "bpe/vocabulary.hpp"

namespace krill {

class OffsetTracker {
 public:
  struct Trimming {
    bool spaces;            // leave spaces at either end of a token out
    bool keep_first_space;  // but a single one before the document's first token
  };

  OffsetTracker(const Vocabulary& vocabulary, const std::uint8_t* text, Trimming trimming,
                GrowingIds<std::uint32_t>& offsets)
      : vocabulary_(vocabulary), text_(text), trimming_(trimming), offsets_(offsets) {}

  // The tokens of the word from `begin` to `end`.
  template <class Id>
  void add_word(std::size_t begin, std::size_t end, std::span<const Id> ids) {
    if (!vocabulary_.covers_all_bytes()) map_word(begin, end);
    std::size_t at = 0;
    for (const Id id : ids) at = add_token(begin, at, vocabulary_.bytes(id));
  }

  // An added token, with the whitespace that it took along.
  void add_added(std::size_t begin, std::size_t end);

 private:
  void map_word(std::size_t begin, std::size_t end);
  std::size_t add_token(std::size_t word, std::size_t at, std::span<const std::uint8_t> token);
  // The token from the character of byte `first` to that of byte `last`.
  void add(std::size_t first, std::size_t last, std::size_t spaces_before, std::size_t spaces_behind);
  std::size_t character_of(std::size_t byte);

  const Vocabulary& vocabulary_;
  const std::uint8_t* text_;
  Trimming trimming_;
  GrowingIds<std::uint32_t>& offsets_;
  std::size_t tokens_ = 0;
  std::size_t counted_to_ = 0;  // bytes
  std::size_t counted_ = 0;     // characters that begin before
  std::vector<std::size_t> map_;
};

}  // namespace krill
