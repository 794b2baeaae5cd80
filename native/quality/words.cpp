#include "quality/words.hpp"

#include <string_view>

namespace krill::quality {
namespace {

using namespace std::string_view_literals;

bool is_digit(uint32_t point) { return point >= '0' && point <= '9'; }
bool is_lettered(uint32_t point) { return is_digit(point) || (traits_of(point) & kLetter) != 0; }
bool has(uint32_t point, Traits traits) { return (traits_of(point) & traits) != 0; }

size_t dots_at_front(const uint8_t* text, size_t size) {
  size_t count = 0;
  while (count < size && text[count] == '.') ++count;
  return count;
}

size_t dots_at_end(const uint8_t* text, size_t size) {
  size_t count = 0;
  while (count < size && text[size - count - 1] == '.') ++count;
  return count;
}

// A full stop at the end, or else it belongs to an initial or stands alone.
bool ends_sentence(const uint8_t* text, size_t size) {
  if (size == 1) return false;
  const Character before = character_before(text, size - 1);
  if (is_digit(before.point) || has(before.point, kMayBeLower | kMark)) return true;
  constexpr uint32_t kSquared = 0xb2;
  if (before.point == '%' || before.point == kSquared || before.point == '-' || before.point == '+' ||
      before.point == '|')
    return true;
  const size_t rest = size - 1 - before.length;
  return rest > 0 && has(before.point, kMayBeUpper) && has(character_before(text, rest).point, kMayBeUpper);
}

constexpr std::string_view kUnits[] = {
    "m"sv,        "km"sv,       "cm"sv,       "mm"sv,       "dm"sv,       "nm"sv,      "\u00b5m"sv,
    "m\u00b2"sv,  "km\u00b2"sv, "cm\u00b2"sv, "mm\u00b2"sv, "dm\u00b2"sv, "m\u00b3"sv, "km\u00b3"sv,
    "cm\u00b3"sv, "mm\u00b3"sv, "dm\u00b3"sv, "ha"sv,       "in"sv,       "ft"sv,      "yd"sv,
    "g"sv,        "kg"sv,       "mg"sv,       "\u00b5g"sv,  "t"sv,        "lb"sv,      "oz"sv,
    "m/s"sv,      "km/h"sv,     "kmh"sv,      "mph"sv,      "Pa"sv,       "hPa"sv,     "mbar"sv,
    "mb"sv,       "MB"sv,       "kb"sv,       "KB"sv,       "gb"sv,       "GB"sv,      "tb"sv,
    "TB"sv,       "T"sv,        "G"sv,        "M"sv,        "K"sv,        "%"sv,
};
constexpr size_t kLongestUnit = 4;

size_t unit_at_end(const uint8_t* text, size_t size) {
  // What stands between the last digit and the end, if that is near.
  size_t length = 0;
  while (length <= kLongestUnit && length < size && !is_digit(text[size - length - 1])) ++length;
  if (length == 0 || length > kLongestUnit || length == size) return 0;
  for (const std::string_view unit : kUnits)
    if (unit == view(text + size - length, length)) return length;
  return 0;
}

// The longest of hyphens that stand in a row, or in the place of one, before a letter.
size_t hyphen_at(const uint8_t* text, size_t size, size_t at) {
  for (const std::string_view hyphen :
       {"---"sv, "--"sv, "\u2014\u2014"sv, "-"sv, "\u2013"sv, "\u2014"sv, "~"sv}) {
    const size_t end = at + hyphen.size();
    if (end < size && view(text + at, hyphen.size()) == hyphen &&
        has(character_at(text + end, size - end).point, kLetter))
      return hyphen.size();
  }
  return 0;
}

}  // namespace

size_t front_mark(const uint8_t* text, size_t size) {
  const Character first = character_at(text, size);
  if (has(first.point, kFrontMark)) return first.length;
  const std::string_view rest = view(text, size);
  switch (first.point) {
    case '+': return size > 1 && is_digit(text[1]) ? 0 : 1;
    case '.': return size > 1 && text[1] == '.' ? dots_at_front(text, size) : 0;
    case 'U': return rest.starts_with("US$") ? 3 : 0;
    case 'A':
    case 'C': return size > 1 && text[1] == '$' ? 2 : 0;
    default: return 0;
  }
}

size_t back_mark(const uint8_t* text, size_t size) {
  const Character last = character_before(text, size);
  if (last.point == '.') {
    const size_t dots = dots_at_end(text, size);
    return dots > 1 ? dots : ends_sentence(text, size);
  }
  const size_t rest = size - last.length;
  if ((last.point == 's' || last.point == 'S') && rest > 0) {
    const Character before = character_before(text, rest);
    constexpr uint32_t kApostrophe = 0x2019;
    if (before.point == '\'' || before.point == kApostrophe) return last.length + before.length;
  }
  if (has(last.point, kBackMark)) return last.length;
  if (rest > 0 && is_digit(text[rest - 1]) && (last.point == '+' || has(last.point, kCurrency)))
    return last.length;
  return unit_at_end(text, size);
}

size_t joint(const uint8_t* text, size_t size, size_t at) {
  const Character here = character_at(text + at, size - at);
  if (here.point == '.' && at + 1 < size && text[at + 1] == '.') return dots_at_front(text + at, size - at);
  constexpr uint32_t kEllipsis = 0x2026;
  if (here.point == kEllipsis || has(here.point, kPicture)) return here.length;
  const size_t next = at + here.length;
  if (at == 0 || next == size) return 0;
  const uint32_t before = character_before(text, at).point;
  const uint32_t after = character_at(text + next, size - next).point;
  switch (here.point) {
    case '.': return has(before, kMayBeLower | kQuote) && has(after, kMayBeUpper | kQuote);
    case '+':
    case '*':
    case '^': return is_digit(before) && (is_digit(after) || after == '-');
    case ',': return has(before, kLetter) && has(after, kLetter);
    case ':':
    case '<':
    case '>':
    case '=':
    case '/': return is_lettered(before) && has(after, kLetter);
    case '-':
      if (is_digit(before) && (is_digit(after) || after == '-')) return 1;
      [[fallthrough]];
    case '~':
    case 0x2013:  // the dashes
    case 0x2014: return is_lettered(before) ? hyphen_at(text, size, at) : 0;
    default: return 0;
  }
}

}  // namespace krill::quality
