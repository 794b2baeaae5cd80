#include "tokenizer/offsets.hpp"

#include <algorithm>
#include <span>

#include "tokenizer/characters.hpp"

namespace krill::tokenizer {

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

bool continues(uint8_t byte) { return (byte & 0xc0) == 0x80; }

// What bytes [begin, end) stand for in the text that this one was before it was changed: whole characters.
normalize::Origin origin_of(const normalize::Text& text, size_t begin, size_t end) {
  if (text.changed()) return text.origin(begin, end);
  while (begin > 0 && begin < text.size() && continues(text.data()[begin])) --begin;
  while (end < text.size() && continues(text.data()[end])) ++end;
  return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
}

}  // namespace

void OffsetTracker::add_token(uint32_t id, const TokenRange& range) {
  const normalize::Origin written = origin_of(*part_, range.begin, range.end);
  add_range(part_begin_ + written.begin, part_begin_ + written.end, spaces_of(id, range));
}

void OffsetTracker::add_added(size_t begin, size_t end) {
  const uint8_t* const text = section_->data() + begin;
  add_range(begin, end, {trimmed_at_begin(text, end - begin), trimmed_at_end(text, end - begin)});
}

void OffsetTracker::add_nowhere() {
  offsets_.push_back(0);
  offsets_.push_back(0);
}

OffsetTracker::Spaces OffsetTracker::spaces_of(uint32_t id, const TokenRange& range) const {
  if (!trimming_.spaces) return {};
  const std::span<const uint8_t> token =
      id == tokens_.by_text ? std::span(part_->data() + range.begin, part_->data() + range.end)
                            : tokens_.vocabulary.bytes(id);
  if (tokens_.byte_level) return {spaces_at_begin(token), spaces_at_end(token)};
  return {trimmed_at_begin(token.data(), token.size()), trimmed_at_end(token.data(), token.size())};
}

// Bytes of the section, as it was normalised.
void OffsetTracker::add_range(size_t begin, size_t end, Spaces spaces) {
  const normalize::Origin written = origin_of(*section_, begin, end);
  size_t first = characters_before(section_begin_ + written.begin);
  size_t last = characters_before(section_begin_ + written.end);
  if (trimming_.spaces) {
    const bool is_first = added_ == 0 || first == 0;
    if (trimming_.keep_first_space && is_first && spaces.before == 1) spaces.before = 0;
    first = std::min(first + spaces.before, last);
    if (last >= spaces.behind) last = std::max(last - spaces.behind, first);
  }
  offsets_.push_back(static_cast<uint32_t>(first));
  offsets_.push_back(static_cast<uint32_t>(last));
  ++added_;
}

size_t OffsetTracker::characters_before(size_t byte) {
  // Parts come in order, more or less: tokens may share a character, or what an added token took.
  for (; counted_to_ < byte; ++counted_to_) counted_ += !continues(document_[counted_to_]);
  for (; counted_to_ > byte; --counted_to_) counted_ -= !continues(document_[counted_to_ - 1]);
  return counted_;
}

}  // namespace krill::tokenizer
