#include "tokenizer/json_lexer.hpp"

#include <algorithm>

#include "check.hpp"
#include "corpus/json_grammar.hpp"
#include "text/byte_scan.hpp"
#include "text/utf8.hpp"

namespace krill::tokenizer {

namespace {

bool is_space(uint8_t byte) { return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r'; }

bool is_punctuation(uint8_t byte) {
  return byte == '{' || byte == '}' || byte == '[' || byte == ']' || byte == ',' || byte == ':';
}

}  // namespace

void JsonLexer::feed(std::span<const uint8_t> block) {
  const uint8_t* at = block.data();
  const uint8_t* const end = at + block.size();
  keep_begin_ = at;
  while (at != end && !is_full_) {
    switch (state_) {
      case State::kBetween: at = read_between(at); break;
      case State::kString: at = read_string(at, end); break;
      case State::kEscape: read_escape(*at++); break;
      case State::kHex: read_hex(*at++); break;
      case State::kLiteral: at = read_literal(at, end); break;
    }
  }
  keep_until(end);
}

void JsonLexer::finish() {
  expect(state_ == State::kBetween || state_ == State::kLiteral, "its JSON ends within a string");
  if (state_ == State::kLiteral) events_.literal(literal_);
  state_ = State::kBetween;
}

void JsonLexer::pause() {
  keep_until(at_ + 1);
  keeps_ = false;
}

void JsonLexer::resume() {
  keep_begin_ = at_;
  keeps_ = true;
}

void JsonLexer::keep_until(const uint8_t* end) {
  if (!keeps_) return;
  const auto size = static_cast<size_t>(end - keep_begin_);
  is_full_ = is_full_ || size > most_kept_ - kept_.size();
  if (!is_full_) kept_.append(reinterpret_cast<const char*>(keep_begin_), size);
  keep_begin_ = end;
}

const uint8_t* JsonLexer::read_between(const uint8_t* at) {
  const uint8_t byte = *at;
  if (is_space(byte)) return at + 1;
  if (byte == '"') {
    string_.truncate(0);
    state_ = State::kString;
    return at + 1;
  }
  if (is_punctuation(byte)) {
    at_ = at;
    events_.punctuation(static_cast<char>(byte));
    return at + 1;
  }
  literal_.clear();
  state_ = State::kLiteral;
  return at;
}

const uint8_t* JsonLexer::read_literal(const uint8_t* at, const uint8_t* end) {
  const uint8_t* const stop = std::find_if(
      at, end, [](uint8_t byte) { return is_space(byte) || is_punctuation(byte) || byte == '"'; });
  // No number of sense is so long, and nothing that is kept is lost.
  expect(static_cast<size_t>(stop - at) <= kLongestLiteral - literal_.size(), "a number is too long");
  literal_.append(at, stop);
  if (stop == end) return end;
  state_ = State::kBetween;
  events_.literal(literal_);
  return stop;
}

const uint8_t* JsonLexer::read_string(const uint8_t* at, const uint8_t* end) {
  const uint8_t* const stop = text::find_string_stop(at, end);
  expect(stop == at || high_surrogate_ == 0, "half of a surrogate pair stands alone in a string");
  string_.append(at, static_cast<size_t>(stop - at));
  if (stop == end) return end;
  if (*stop == '"') {
    end_string();
  } else {
    expect(*stop == '\\', "a string has a control character that is not escaped");
    state_ = State::kEscape;
  }
  return stop + 1;
}

void JsonLexer::read_escape(uint8_t byte) {
  code_ = digits_ = 0;
  state_ = byte == 'u' ? State::kHex : State::kString;
  if (byte == 'u') return;
  expect(high_surrogate_ == 0, "half of a surrogate pair stands alone in a string");
  expect(corpus::kUnescaped[byte] != 0, "a string has an escape that JSON does not know");
  string_.push_back(corpus::kUnescaped[byte]);
}

void JsonLexer::read_hex(uint8_t byte) {
  const int digit = corpus::hex_digit(byte);
  expect(digit >= 0, "a string has an escape `\\u` without four hexadecimal digits");
  code_ = code_ << 4 | static_cast<uint32_t>(digit);
  if (++digits_ < 4) return;
  state_ = State::kString;
  expect((high_surrogate_ != 0) == corpus::is_low_surrogate(code_),
         "half of a surrogate pair stands alone in a string");
  if (corpus::is_high_surrogate(code_)) {
    high_surrogate_ = code_;
    return;
  }
  if (high_surrogate_ != 0) code_ = corpus::join_surrogates(high_surrogate_, code_);
  high_surrogate_ = 0;
  const corpus::Utf8Character character = corpus::to_utf8(code_);
  string_.append(character.bytes.data(), character.size);
}

void JsonLexer::end_string() {
  expect(high_surrogate_ == 0, "half of a surrogate pair stands alone in a string");
  expect(text::utf8_prefix(string_.data(), string_.size()).bytes == string_.size(), "a string is not UTF-8");
  state_ = State::kBetween;
  events_.string({string_.data(), string_.size()});
}

}  // namespace krill::tokenizer
