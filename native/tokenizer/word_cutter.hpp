// What cuts a text into words: the last thing that happens to it before the model.
//
// In: a text. Out: where its words end. Held in memory: what an implementation needs; each worker has an
// object of its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "text/scanner.hpp"

namespace krill::tokenizer {

class WordCutter {
 public:
  // On an end: what lies before it is no word, and is left out.
  static constexpr uint32_t kDropped = uint32_t{1} << 31;
  // Texts are shorter than this.
  static constexpr size_t kTooLong = kDropped;

  WordCutter() = default;
  WordCutter(const WordCutter&) = delete;
  WordCutter& operator=(const WordCutter&) = delete;
  virtual ~WordCutter() = default;

  // Writes the ends (offsets from `text`) of successive words from `from` on, where one must begin, at least
  // one and up to `capacity` of them, and returns how many. The last end written is where to go on; together
  // they cover every byte. `from` is less than `size`.
  virtual size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) = 0;
};

// The patterns that the scanner knows.
class PatternCutter final : public WordCutter {
 public:
  explicit PatternCutter(text::Pattern pattern) : pattern_(pattern) {}

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) override {
    return text::scan_words(pattern_, text, size, from, ends, capacity);
  }

 private:
  text::Pattern pattern_;
};

// No pre-tokenizer: the text is one word.
class WholeText final : public WordCutter {
 public:
  size_t cut(const uint8_t*, size_t size, size_t, uint32_t* ends, size_t) override {
    *ends = static_cast<uint32_t>(size);
    return 1;
  }
};

}  // namespace krill::tokenizer
