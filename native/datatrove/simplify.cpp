#include "datatrove/simplify.hpp"

#include <stdexcept>

#include "text/char_class.hpp"

namespace krill::datatrove {
namespace {

using std::string_view;

constexpr uint32_t kPoints = 0x110000;
constexpr uint32_t kPage = 128;

uint32_t decoded(const uint8_t* text, size_t length) {
  if (length == 1) return text[0];
  uint32_t point = text[0] & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; ++i) point = point << 6 | (text[i] & 0x3fu);
  return point;
}

// The state inside a number: digits, perhaps one separator, more digits. All of it becomes one 0.
class Writer {
 public:
  explicit Writer(Simplifier::Text& out) : out_(out) {}

  void byte(uint8_t byte) {
    if (number_ != Number::none) end_number();
    out_.push_back(byte);
  }

  void text(string_view text) {
    if (number_ != Number::none) end_number();
    out_.append(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  }

  void space() {
    if (number_ != Number::none) end_number();
    if (out_.size() != 0 && out_.back() != ' ') out_.push_back(' ');
  }

  void digit() {
    if (number_ == Number::none) {
      out_.push_back('0');
      number_ = Number::whole;
    } else if (number_ == Number::separator) {
      number_ = Number::fraction;
    }
  }

  void separator(string_view instead) {
    if (number_ == Number::whole) {
      number_ = Number::separator;
      held_ = instead;
    } else {
      plain_separator(instead);
    }
  }

  void end() {
    if (number_ != Number::none) end_number();
    if (out_.size() != 0 && out_.back() == ' ') out_.truncate(out_.size() - 1);
  }

 private:
  enum class Number : uint8_t { none, whole, separator, fraction };

  void end_number() {
    const bool held = number_ == Number::separator;
    number_ = Number::none;
    if (held) plain_separator(held_);
  }

  void plain_separator(string_view instead) {
    if (instead == " ") {
      space();
    } else {
      text(instead);
    }
  }

  Simplifier::Text& out_;
  Number number_ = Number::none;
  string_view held_;
};

}  // namespace

// Page 0 holds no change and serves all code points until they have one.
Simplifier::Simplifier(const uint32_t* points, const uint8_t* changes, const text::TextColumn& replacements)
    : entries_(1, Entry{0, 0, Change::kText}),
      replacements_(replacements.data + replacements.offsets[0],
                    replacements.data + replacements.offsets[0] + replacements.total()),
      page_of_(kPoints / kPage, 0),
      pages_(kPage, 0) {
  for (size_t row = 0; row < replacements.rows; ++row) {
    if (points[row] >= kPoints) throw std::invalid_argument("a character is no code point");
    if (changes[row] >= kChanges) throw std::invalid_argument("a change is none that is known");
    if (replacements.size(row) > 0xff) throw std::invalid_argument("a replacement has more than 255 bytes");
    uint16_t& page = page_of_[points[row] / kPage];
    if (page == 0) {
      page = static_cast<uint16_t>(pages_.size() / kPage);
      pages_.resize(pages_.size() + kPage, 0);
    }
    pages_[page * kPage + points[row] % kPage] = static_cast<uint32_t>(entries_.size());
    const auto at = static_cast<uint32_t>(replacements.offsets[row] - replacements.offsets[0]);
    entries_.push_back({at, static_cast<uint8_t>(replacements.size(row)), static_cast<Change>(changes[row])});
  }
  for (uint32_t point = 0; point < plain_.size(); ++point) {
    const Entry& entry = entry_of(point);
    const bool stays = &entry == entries_.data();
    const bool one_byte = entry.change == Change::kText && entry.size == 1;
    plain_[point] = static_cast<uint8_t>(stays ? point : one_byte ? replacement(entry)[0] : 0);
  }
}

const Simplifier::Entry& Simplifier::entry_of(uint32_t point) const {
  return entries_[pages_[page_of_[point / kPage] * kPage + point % kPage]];
}

void Simplifier::simplify(const uint8_t* text, size_t size, Text& out) const {
  out.truncate(0);
  Writer writer(out);
  for (size_t at = 0; at < size;) {
    if (text[at] < 0x80 && plain_[text[at]] != 0) {
      writer.byte(plain_[text[at++]]);
      continue;
    }
    const text::Character character = text::character_at(text + at, size - at);
    if (!character.well_formed) {
      writer.space();
    } else if (const Entry& entry = entry_of(decoded(text + at, character.length));
               &entry == entries_.data()) {
      writer.text({reinterpret_cast<const char*>(text + at), character.length});
    } else if (entry.change == Change::kText) {
      writer.text(replacement(entry));
    } else if (entry.change == Change::kSpace) {
      writer.space();
    } else if (entry.change == Change::kDigit) {
      writer.digit();
    } else {
      writer.separator(replacement(entry));
    }
    at += character.length;
  }
  writer.end();
}

}  // namespace krill::datatrove
