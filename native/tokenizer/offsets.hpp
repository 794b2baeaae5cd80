// The offsets of tokens in a document, in characters, as Hugging Face's library reports them.
//
// In: the parts of one document in order, with their ids. Out: a begin and an end for each id. Held in
// memory: nothing. A token that begins or ends inside a
// character covers all of it; one of normalised text covers what its bytes stand for in the document.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bpe/vocabulary.hpp"
#include "growing_buffer.hpp"
#include "normalize/text.hpp"
#include "tokenizer/word_encoder.hpp"

namespace krill::tokenizer {

class OffsetTracker {
 public:
  struct Trimming {
    bool spaces;            // leave spaces at either end of a token out
    bool keep_first_space;  // but a single one before the document's first token
  };
  // What the tokens are: their bytes by id, and how they are written.
  struct Tokens {
    const bpe::Vocabulary& vocabulary;
    bool byte_level;   // tokens are bytes, and a space in them is the letter that represents it
    uint32_t by_text;  // Model::known_by_its_text
  };

  OffsetTracker(const Tokens& tokens, const uint8_t* document, Trimming trimming,
                GrowingBuffer<uint32_t>& offsets)
      : tokens_(tokens), document_(document), trimming_(trimming), offsets_(offsets) {}

  // A section of the document that begins at `begin`, and what the normalizer made of it; the caller keeps it
  // until the next one.
  void enter(size_t begin, const normalize::Text& section) {
    section_begin_ = begin;
    section_ = &section;
  }
  // A part of that which begins at `begin` of the normalised text, and what the pre-tokenizer made of it.
  void enter_part(size_t begin, const normalize::Text& part) {
    part_begin_ = begin;
    part_ = &part;
  }

  // A token of a word of the part, and its bytes there.
  void add_token(uint32_t id, const TokenRange& range);
  // An added token from `begin` to `end` of the section, with the whitespace that it took.
  void add_added(size_t begin, size_t end);
  // A token of the post-processor.
  void add_nowhere();

 private:
  struct Spaces {
    size_t before = 0;
    size_t behind = 0;
  };

  Spaces spaces_of(uint32_t id, const TokenRange& range) const;
  void add_range(size_t begin, size_t end, Spaces spaces);  // of the section
  size_t characters_before(size_t byte);

  Tokens tokens_;
  const uint8_t* document_;
  Trimming trimming_;
  GrowingBuffer<uint32_t>& offsets_;
  size_t section_begin_ = 0;
  const normalize::Text* section_ = nullptr;
  size_t part_begin_ = 0;
  const normalize::Text* part_ = nullptr;
  size_t added_ = 0;
  size_t counted_to_ = 0;  // bytes
  size_t counted_ = 0;     // characters that begin before
};

}  // namespace krill::tokenizer
