#include "bpe/encoder_offsets.hpp"

#include <algorithm>
#include <span>

#include "bpe/encoder_characters.hpp"

namespace krill::bpe {

namespace {

size_t spaces_at_begin(std::span<const uint8_t> token) {
  return static_cast<size_t>(std::ranges::find_if(token, [](uint8_t byte) { return byte != ' '; }) -
                             token.begin());
}

size_t spaces_at_end(std::span<const uint8_t> token) {
  size_t spaces = 0;
  while (spaces < token.size() && token[token.size() - 1 - spaces] == ' ') ++spaces;
  return spaces;
}

}  // namespace

void OffsetTracker::add_token(uint32_t id, const tokenizer::TokenRange& range) {
  const std::span<const uint8_t> token = vocabulary_.bytes(id);
  add(range.begin, range.end - 1, spaces_at_begin(token), spaces_at_end(token));
}

void OffsetTracker::add_added(size_t begin, size_t end) {
  const uint8_t* const text = text_ + begin;
  add(begin, end - 1, trimmed_at_begin(text, end - begin), trimmed_at_end(text, end - begin));
}

void OffsetTracker::add(size_t first, size_t last, size_t spaces_before, size_t spaces_behind) {
  size_t begin = character_of(first);
  size_t end = character_of(last) + 1;
  if (trimming_.spaces) {
    const bool is_first = tokens_ == 0 || begin == 0;
    if (trimming_.keep_first_space && is_first && spaces_before == 1) spaces_before = 0;
    begin = std::min(begin + spaces_before, end);
    if (end >= spaces_behind) end = std::max(end - spaces_behind, begin);
  }
  offsets_.push_back(static_cast<uint32_t>(begin));
  offsets_.push_back(static_cast<uint32_t>(end));
  ++tokens_;
}

size_t OffsetTracker::character_of(size_t byte) {
  // Parts come in order, except where added tokens took whitespace in which others begin.
  if (byte + 1 < counted_to_) counted_to_ = counted_ = 0;
  for (; counted_to_ <= byte; ++counted_to_) counted_ += (text_[counted_to_] & 0xc0) != 0x80;
  return counted_ == 0 ? 0 : counted_ - 1;
}

}  // namespace krill::bpe
