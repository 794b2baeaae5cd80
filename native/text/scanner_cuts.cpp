// Places where a text may be cut in two: a boundary of every pattern, whatever stands before and after.
#include "text/char_class.hpp"
#include "text/scanner.hpp"

namespace krill::text {
namespace {

// No pattern has these two in one word, and the words before don't change when the text ends between them.
// Whitespace before a cut would: how a run is divided depends on what follows. `\r` and `\n` may belong to
// the characters before them, unless those are letters or numbers; marks and apostrophes to letters before
// them.
bool separate(CharClass before, CharClass after, uint8_t after_byte) {
  if (is_space(before)) return false;
  if (after == CharClass::space) return true;
  if (is_number(before) != is_number(after)) return true;
  if (!is_letter(before)) return false;
  return after == CharClass::newline || (after == CharClass::other && after_byte != '\'');
}

// Both characters must be well-formed: then they are characters whatever comes before and after.
bool is_cut(const uint8_t* text, size_t size, size_t place) {
  const Character after = character_at(text + place, size - place);
  if (!after.well_formed) return false;
  size_t length = 1;
  while (length < 4 && length < place && (text[place - length] & 0xc0) == 0x80) ++length;
  const Character before = character_at(text + place - length, length);
  return before.well_formed && before.length == length && separate(before.kind, after.kind, text[place]);
}

}  // namespace

size_t last_cut(const uint8_t* text, size_t size) {
  for (size_t place = size; place-- > 1;) {
    if (is_cut(text, size, place)) return place;
  }
  return 0;
}

size_t first_cut(const uint8_t* text, size_t size, size_t from) {
  for (size_t place = from == 0 ? 1 : from; place < size; ++place) {
    if (is_cut(text, size, place)) return place;
  }
  return size;
}

}  // namespace krill::text
