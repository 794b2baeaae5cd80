// Sentences: a word of terminal punctuation ends one, with whatever other punctuation follows it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "quality/traits.hpp"
#include "quality/words.hpp"

namespace krill::quality {

// Whether a word begins a sentence that is not the first, given the words before it.
class SentenceRule {
 public:
  bool begins(const uint8_t* word, size_t size) {
    const Character first = character_at(word, size);
    const bool terminal = first.length == size && (traits_of(first.point) & kTerminal) != 0;
    if (terminal) {
      ended_ = true;
      return false;
    }
    if (!ended_ || is_punctuation(word, size)) return false;
    ended_ = false;
    return true;
  }

 private:
  static bool is_punctuation(const uint8_t* word, size_t size) {
    for (size_t at = 0; at < size;) {
      const Character here = character_at(word + at, size - at);
      if ((traits_of(here.point) & kPunctuation) == 0) return false;
      at += here.length;
    }
    return true;
  }

  bool ended_ = false;
};

// Calls `emit(Span)` for each sentence; together they are the whole text, and there is at least one.
template <class Emit>
void split_sentences(const uint8_t* text, size_t size, Emit emit) {
  SentenceRule rule;
  uint32_t begin = 0;
  split_words(text, size, [&](Span word) {
    if (!rule.begins(text + word.begin, word.size)) return;
    emit(Span{begin, word.begin - begin});
    begin = word.begin;
  });
  emit(Span{begin, static_cast<uint32_t>(size) - begin});
}

}  // namespace krill::quality
