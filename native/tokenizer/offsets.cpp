#include "tokenizer/offsets.hpp"

#include <algorithm>

#include "tokenizer/characters.hpp"

namespace krill::tokenizer {

namespace {

// UTF-8 length of the letter that represents a byte in tokens: printable bytes represent themselves.
size_t letter_size(uint8_t byte) { return byte >= 0x21 && byte <= 0x7e ? 1 : 2; }

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

}  // namespace

// The byte of the word that each byte of its letters stands for, and where the word ends. Bytes without a
// token have letters too, but nothing that counts them: after such a byte the library's offsets lag, and so
// do ours.
void OffsetTracker::map_letters(const uint8_t* word, size_t size) {
  letters_.clear();
  for (size_t byte = 0; byte < size; ++byte) letters_.insert(letters_.end(), letter_size(word[byte]), byte);
}

void OffsetTracker::add_word(size_t begin, size_t end, std::span<const uint32_t> ids,
                             const uint32_t* lengths) {
  const uint8_t* const word = section_->data() + begin;
  if (tokens_.counts_letters) map_letters(word, end - begin);
  size_t from = 0, to = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    if (lengths[i] != 0) {
      from = to;
      to = from + lengths[i];
    }
    if (tokens_.counts_letters)
      add_range(begin + letters_[from], begin + letters_[to - 1] + 1, spaces_of(ids[i]));
    else
      add_range(begin + from, begin + std::min(to, end - begin), spaces_of(ids[i]));
  }
}

void OffsetTracker::add_added(size_t begin, size_t end) {
  const uint8_t* const text = section_->data() + begin;
  add_range(begin, end, {trimmed_at_begin(text, end - begin), trimmed_at_end(text, end - begin)});
}

void OffsetTracker::add_nowhere() {
  offsets_.push_back(0);
  offsets_.push_back(0);
}

OffsetTracker::Spaces OffsetTracker::spaces_of(uint32_t id) const {
  if (!trimming_.spaces) return {};
  const std::span<const uint8_t> token = tokens_.vocabulary.bytes(id);
  if (tokens_.byte_level) return {spaces_at_begin(token), spaces_at_end(token)};
  return {trimmed_at_begin(token.data(), token.size()), trimmed_at_end(token.data(), token.size())};
}

// Bytes of the section, as it was normalised.
void OffsetTracker::add_range(size_t begin, size_t end, Spaces spaces) {
  if (section_->changed()) {
    const normalize::Origin origin = section_->origin(begin, end);
    begin = origin.begin;
    end = origin.end;
  } else {
    const uint8_t* const text = section_->data();
    while (begin > 0 && continues(text[begin])) --begin;
    while (end < section_->size() && continues(text[end])) ++end;
  }
  size_t first = characters_before(begin_ + begin);
  size_t last = characters_before(begin_ + end);
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
