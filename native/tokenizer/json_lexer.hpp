// JSON that comes in blocks, as a sequence of strings, literals and punctuation.
//
// In: blocks of a file, cut anywhere. Out: calls of `JsonEvents`, and the text itself where it is kept. Held
// in memory: the string or literal in work, and the text that is kept, up to a limit. Strings are checked
// (escapes, surrogates, UTF-8); what may follow what is the consumer's matter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "growing_buffer.hpp"

namespace krill::tokenizer {

class JsonEvents {
 public:
  virtual void punctuation(char character) = 0;  // one of { } [ ] , :
  virtual void string(std::span<const uint8_t> text) = 0;
  virtual void literal(std::string_view text) = 0;  // a number, true, false, null, or anything else

 protected:
  ~JsonEvents() = default;
};

class JsonLexer {
 public:
  // Keeps the text until `pause`, at most `most_kept` bytes.
  JsonLexer(JsonEvents& events, size_t most_kept) : events_(events), most_kept_(most_kept) {}

  // Throws std::invalid_argument for a string that is not one.
  void feed(std::span<const uint8_t> block);
  // After the last block.
  void finish();

  // For calls out of `punctuation`: the text after this character is not kept, or from it on it is again.
  void pause();
  void resume();

  const std::string& kept() const { return kept_; }
  // Whether there was more text to keep than the limit allows; nothing is read any more then.
  bool is_full() const { return is_full_; }

 private:
  static constexpr size_t kLongestLiteral = 1 << 16;

  enum class State : uint8_t { kBetween, kString, kEscape, kHex, kLiteral };

  void keep_until(const uint8_t* end);
  const uint8_t* read_between(const uint8_t* at);
  const uint8_t* read_string(const uint8_t* at, const uint8_t* end);
  const uint8_t* read_literal(const uint8_t* at, const uint8_t* end);
  void read_escape(uint8_t byte);
  void read_hex(uint8_t byte);
  void end_string();

  JsonEvents& events_;
  size_t most_kept_;
  std::string kept_;
  bool keeps_ = true;
  bool is_full_ = false;
  const uint8_t* keep_begin_ = nullptr;  // in the block: what is not kept yet
  const uint8_t* at_ = nullptr;          // in the block: the character of a call of `punctuation`
  State state_ = State::kBetween;
  GrowingBuffer<uint8_t> string_;
  std::string literal_;
  uint32_t code_ = 0;  // of \u
  unsigned digits_ = 0;
  uint32_t high_surrogate_ = 0;  // the next escape must be its other half
};

}  // namespace krill::tokenizer
