#include "bpe/encoder_offsets.hpp"

#include <algorithm>

#include "bpe/encoder_characters.hpp"

namespace krill {

namespace {

// Bytes of the letter that stands for a byte in tokens, in UTF-8: the printable ones stand for themselves.
std::size_t letter_size(std::uint8_t byte) { return byte >= 0x21 && byte <= 0x7e ? 1 : 2; }

std::size_t spaces_at_begin(std::span<const std::uint8_t> token) {
  return static_cast<std::size_t>(std::ranges::find_if(token, [](std::uint8_t byte) { return byte != ' '; }) -
                                  token.begin());
}

std::size_t spaces_at_end(std::span<const std::uint8_t> token) {
  std::size_t spaces = 0;
  while (spaces < token.size() && token[token.size() - 1 - spaces] == ' ') ++spaces;
  return spaces;
}

}  // namespace

// The library counts in letters. Bytes without a token have letters too, but nothing that counts them: behind
// such a byte its offsets lag, and so do ours.
void OffsetTracker::map_word(std::size_t begin, std::size_t end) {
  map_.clear();
  for (std::size_t byte = begin; byte < end; ++byte) map_.insert(map_.end(), letter_size(text_[byte]), byte);
}

std::size_t OffsetTracker::add_token(std::size_t word, std::size_t at, std::span<const std::uint8_t> token) {
  const std::size_t before = spaces_at_begin(token);
  const std::size_t behind = spaces_at_end(token);
  if (vocabulary_.covers_all_bytes()) {
    add(word + at, word + at + token.size() - 1, before, behind);
    return at + token.size();
  }
  std::size_t letters = 0;
  for (const std::uint8_t byte : token) letters += letter_size(byte);
  add(map_[at], map_[at + letters - 1], before, behind);
  return at + letters;
}

void OffsetTracker::add_added(std::size_t begin, std::size_t end) {
  const std::uint8_t* const text = text_ + begin;
  add(begin, end - 1, trimmed_at_begin(text, end - begin), trimmed_at_end(text, end - begin));
}

void OffsetTracker::add(std::size_t first, std::size_t last, std::size_t spaces_before,
                        std::size_t spaces_behind) {
  std::size_t begin = character_of(first);
  std::size_t end = character_of(last) + 1;
  if (trimming_.spaces) {
    const bool is_first = tokens_ == 0 || begin == 0;
    if (trimming_.keep_first_space && is_first && spaces_before == 1) spaces_before = 0;
    begin = std::min(begin + spaces_before, end);
    if (end >= spaces_behind) end = std::max(end - spaces_behind, begin);
  }
  offsets_.append(static_cast<std::uint32_t>(begin));
  offsets_.append(static_cast<std::uint32_t>(end));
  ++tokens_;
}

std::size_t OffsetTracker::character_of(std::size_t byte) {
  // Parts come in order, except where added tokens took whitespace along in which others begin.
  if (byte + 1 < counted_to_) counted_to_ = counted_ = 0;
  for (; counted_to_ <= byte; ++counted_to_) counted_ += (text_[counted_to_] & 0xc0) != 0x80;
  return counted_ == 0 ? 0 : counted_ - 1;
}

}  // namespace krill
