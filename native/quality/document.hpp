// One document under judgement: its text and what was found out about it, once for all filters.
//
// Held in memory, and kept from one document to the next: the words without the spaces between them (a byte for
// each byte of text) and where each begins (four bytes for each word), when a filter asks for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "quality/traits.hpp"
#include "quality/words.hpp"
#include "text/growing_buffer.hpp"

namespace krill::quality {

// The words of a document, one after another.
class Words {
 public:
  static constexpr std::size_t kSlack = 16;  // bytes that may be read after the last word

  void assign(const std::uint8_t* text, std::size_t size) {
    joined_.truncate(0);
    joined_.append_repeated(0, size + kSlack);
    begins_.truncate(0);
    std::uint32_t end = 0;
    split_words(text, size, [&](Span word) {
      begins_.push_back(end);
      copy(joined_.data() + end, text + word.begin, word.size, size - word.begin);
      end += word.size;
    });
    begins_.push_back(end);
    // What lies beyond is compared too, by whoever reads sixteen bytes at once.
    std::memset(joined_.data() + end, 0, kSlack);
  }

  std::size_t count() const { return begins_.size() - 1; }
  std::size_t bytes() const { return begins_[count()]; }
  // The place of a word among the joined bytes; that of number `count()` is their end.
  std::uint32_t begin(std::size_t word) const { return begins_[word]; }
  std::uint32_t size(std::size_t word) const { return begins_[word + 1] - begins_[word]; }
  const std::uint8_t* at(std::size_t word) const { return joined_.data() + begins_[word]; }

 private:
  static void copy(std::uint8_t* to, const std::uint8_t* from, std::size_t size, std::size_t readable) {
    // Most words are short: sixteen bytes are copied in one step, and what is too much is overwritten.
    if (size <= kSlack && readable >= kSlack) std::memcpy(to, from, kSlack);
    else std::memcpy(to, from, size);
  }

  text::GrowingBuffer<std::uint8_t> joined_;
  text::GrowingBuffer<std::uint32_t> begins_;
};

class Document {
 public:
  // The text must outlive its use here.
  void assign(const std::uint8_t* text, std::size_t size) {
    text_ = text;
    size_ = size;
    characters_ = count_characters(text, size);
    split_ = false;
  }

  const std::uint8_t* text() const { return text_; }
  std::size_t size() const { return size_; }
  std::size_t characters() const { return characters_; }
  bool is_ascii() const { return characters_ == size_; }

  const Words& words() {
    if (!split_) words_.assign(text_, size_);
    split_ = true;
    return words_;
  }

 private:
  const std::uint8_t* text_ = nullptr;
  std::size_t size_ = 0;
  std::size_t characters_ = 0;
  bool split_ = false;
  Words words_;
};

}  // namespace krill::quality
