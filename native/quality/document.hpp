// The document that filters look at: its text, and its words and counts, computed once for all filters.
//
// Held in memory, and kept from one document to the next: the words without the spaces between them (a byte
// for each byte of text) and where each begins (at most six bytes for each word), of the first million words,
// when a filter asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "growing_buffer.hpp"
#include "quality/traits.hpp"
#include "quality/words.hpp"

namespace krill::quality {

// The words of a document, one after another, up to a limit.
class Words {
 public:
  static constexpr size_t kMost = size_t{1} << 20;  // that are kept
  static constexpr size_t kSlack = 16;              // bytes that may be read after the last word

  void assign(const uint8_t* text, size_t size) {
    joined_.resize_for_overwrite(size + kSlack);
    begins_.truncate(0);
    total_ = 0;
    uint32_t end = 0;
    split_words(text, size, [&](Span word) {
      if (++total_ > kMost) return;
      begins_.push_back(end);
      copy(joined_.data() + end, text + word.begin, word.size, size - word.begin);
      end += word.size;
    });
    begins_.push_back(end);
    // Comparisons read sixteen bytes at once, so bytes after the last word are read too.
    std::memset(joined_.data() + end, 0, kSlack);
  }

  // All words of the document, and those that are kept.
  size_t total() const { return total_; }
  size_t count() const { return begins_.size() - 1; }
  // The offset of a word in the joined bytes; that of word `count()` is their end.
  uint32_t begin(size_t word) const { return begins_[word]; }
  uint32_t size(size_t word) const { return begins_[word + 1] - begins_[word]; }
  const uint8_t* at(size_t word) const { return joined_.data() + begins_[word]; }

 private:
  static void copy(uint8_t* to, const uint8_t* from, size_t size, size_t readable) {
    // Most words are short: sixteen bytes are copied in one step, and what is too much is overwritten.
    if (size <= kSlack && readable >= kSlack)
      std::memcpy(to, from, kSlack);
    else
      std::memcpy(to, from, size);
  }

  GrowingBuffer<uint8_t> joined_;
  GrowingBuffer<uint32_t> begins_;
  size_t total_ = 0;
};

class Document {
 public:
  // The text must outlive its use here.
  void assign(const uint8_t* text, size_t size) {
    text_ = text;
    size_ = size;
    characters_ = count_characters(text, size);
    split_ = false;
  }

  const uint8_t* text() const { return text_; }
  size_t size() const { return size_; }
  size_t characters() const { return characters_; }
  bool is_ascii() const { return characters_ == size_; }

  const Words& words() {
    if (!split_) words_.assign(text_, size_);
    split_ = true;
    return words_;
  }

  // Calls `visit(word, size)` for all words, also of a document that has more than are kept.
  template <class Visit>
  void each_word(Visit visit) {
    const Words& kept = words();
    if (kept.total() > kept.count()) {
      split_words(text_, size_, [&](Span word) { visit(text_ + word.begin, size_t{word.size}); });
    } else {
      for (size_t i = 0; i < kept.count(); ++i) visit(kept.at(i), size_t{kept.size(i)});
    }
  }

 private:
  const uint8_t* text_ = nullptr;
  size_t size_ = 0;
  size_t characters_ = 0;
  bool split_ = false;
  Words words_;
};

}  // namespace krill::quality
