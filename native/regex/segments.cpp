#include "regex/segments.hpp"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "regex/characters.hpp"
#include "regex/unicode.hpp"

namespace krill::regex {
namespace {

// The classes of characters of one kind of segment.
class Classes {
 public:
  Classes(std::string_view kind, const char* const* names, size_t count) {
    for (size_t number = 0; number < count; ++number) {
      CodeSet set;
      std::string name(1, '(');
      name.append(kind).append(1, ' ').append(names[number]).append(1, ')');
      find_property(name, set);
      for (const Range& range : set.ranges())
        entries_.push_back({range.first, range.last, static_cast<uint8_t>(number + 1)});
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.first < b.first; });
  }

  // From 1 in the order of the names; 0 for all others.
  uint8_t of(uint32_t point) const {
    const auto after =
        std::upper_bound(entries_.begin(), entries_.end(), point,
                         [](uint32_t value, const Entry& entry) { return value < entry.first; });
    if (after == entries_.begin() || point > std::prev(after)->last) return 0;
    return std::prev(after)->number;
  }

 private:
  struct Entry {
    uint32_t first;
    uint32_t last;
    uint8_t number;
  };
  std::vector<Entry> entries_;
};

bool is_pictograph(uint32_t point) {
  static const CodeSet pictographs = [] {
    CodeSet set;
    find_property("extendedpictographic", set);
    return set;
  }();
  return pictographs.contains(point);
}

// Reads characters to both sides of a place.
class Reader {
 public:
  Reader(const uint8_t* text, size_t size, size_t at, const Classes& classes, uint64_t& steps)
      : text_(text), size_(size), left_(at), right_(at), classes_(classes), steps_(steps) {}

  bool has_left() const { return left_ > 0; }
  bool has_right() const { return right_ < size_; }

  // The character before those that were taken, or after them.
  uint8_t take_left() {
    left_ = previous_place(text_, left_);
    return classify(left_, point_);
  }
  uint8_t take_right() {
    const size_t at = right_;
    right_ += length_at(text_, size_, at);
    return classify(at, point_);
  }
  uint32_t point() const { return point_; }  // of the one taken last

 private:
  uint8_t classify(size_t at, uint32_t& point) {
    ++steps_;
    point = point_at(text_, at, length_at(text_, size_, at));
    return classes_.of(point);
  }

  const uint8_t* text_;
  size_t size_;
  size_t left_;
  size_t right_;
  const Classes& classes_;
  uint64_t& steps_;
  uint32_t point_ = 0;
};

// Whether an even number of them stands before the two around a place.
bool is_pair(Reader& reader, uint8_t regional) {
  size_t count = 0;
  while (reader.has_left() && reader.take_left() == regional) ++count;
  return count % 2 == 0;
}

namespace grapheme {

enum Class : uint8_t { other, cr, lf, control, l, v, t, lv, lvt, extend, zwj, spacing, prepend, regional };
constexpr const char* kNames[] = {"cr",  "lf",     "control", "l",       "v",       "t",       "lv",
                                  "lvt", "extend", "zwj",     "spacing", "prepend", "regional"};

bool is_control(uint8_t kind) { return kind >= cr && kind <= control; }
bool is_hangul(uint8_t kind) { return kind >= l && kind <= lvt; }

bool joins_hangul(uint8_t left, uint8_t right) {
  switch (left) {
    case l: return right != t;
    case lv:
    case v: return right == v || right == t;
    default: return right == t;  // after a syllable with its last consonant
  }
}

}  // namespace grapheme

namespace word {

enum Class : uint8_t {
  other,
  cr,
  lf,
  newline,
  extend,
  zwj,
  space,
  letter,
  hebrew,
  midletter,
  midnumlet,
  quote,
  quotes,
  midnum,
  numeric,
  katakana,
  extendnumlet,
  regional
};
constexpr const char* kNames[] = {"cr",     "lf",      "newline",   "extend",       "zwj",     "space",
                                  "letter", "hebrew",  "midletter", "midnumlet",    "quote",   "quotes",
                                  "midnum", "numeric", "katakana",  "extendnumlet", "regional"};

bool ends_line(uint8_t kind) { return kind >= cr && kind <= newline; }
bool is_ignored(uint8_t kind) { return kind == extend || kind == zwj; }
bool is_letter(uint8_t kind) { return kind == letter || kind == hebrew; }
bool joins_letters(uint8_t kind) { return kind == midletter || kind == midnumlet || kind == quote; }
bool joins_numbers(uint8_t kind) { return kind == midnum || kind == midnumlet || kind == quote; }

// The next class to the left or to the right without what only extends a character.
uint8_t left_of(Reader& reader) {
  uint8_t kind = other;
  while (reader.has_left() && is_ignored(kind = reader.take_left())) {
  }
  return kind;
}

uint8_t right_of(Reader& reader) {
  while (reader.has_right()) {
    const uint8_t kind = reader.take_right();
    if (!is_ignored(kind)) return kind;
  }
  return other;
}

// Two classes between which no word begins whatever stands around them.
bool joins(uint8_t left, uint8_t right) {
  const bool is_left_word = is_letter(left) || left == numeric;
  const bool is_right_word = is_letter(right) || right == numeric;
  if (is_left_word && is_right_word) return true;
  if (left == hebrew && right == quote) return true;
  if (left == katakana && right == katakana) return true;
  if (right == extendnumlet) return is_left_word || left == katakana || left == extendnumlet;
  return left == extendnumlet && (is_right_word || right == katakana);
}

// Whether what follows, or what stands before, makes one word of a letter or number and a sign.
bool joins_by_context(uint8_t left, uint8_t right, Reader& reader) {
  if (is_letter(left) && joins_letters(right) && is_letter(right_of(reader))) return true;
  if (left == hebrew && right == quotes) return right_of(reader) == hebrew;
  if (left == numeric && joins_numbers(right)) return right_of(reader) == numeric;
  if (is_letter(right) && joins_letters(left) && is_letter(left_of(reader))) return true;
  if (right == hebrew && left == quotes) return left_of(reader) == hebrew;
  return right == numeric && joins_numbers(left) && left_of(reader) == numeric;
}

}  // namespace word
}  // namespace

bool begins_grapheme(const uint8_t* text, size_t size, size_t at, uint64_t& steps) {
  using namespace grapheme;
  static const Classes classes("grapheme", kNames, std::size(kNames));
  if (at == 0 || at == size) return true;
  Reader reader(text, size, at, classes, steps);
  const uint8_t left = reader.take_left();
  const uint8_t right = reader.take_right();
  if (left == cr && right == lf) return false;
  if (is_control(left) || is_control(right)) return true;
  if (is_hangul(left) && is_hangul(right)) return !joins_hangul(left, right);
  if (right == extend || right == zwj || right == spacing || left == prepend) return false;
  if (left == zwj && is_pictograph(reader.point())) {
    while (reader.has_left()) {
      const uint8_t before = reader.take_left();
      if (is_pictograph(reader.point())) return false;
      if (before != extend) return true;
    }
    return true;
  }
  return left != regional || right != regional || !is_pair(reader, regional);
}

bool begins_word(const uint8_t* text, size_t size, size_t at, uint64_t& steps) {
  using namespace word;
  static const Classes classes("word", kNames, std::size(kNames));
  if (at == 0 || at == size) return true;
  Reader reader(text, size, at, classes, steps);
  uint8_t left = reader.take_left();
  const uint8_t right = reader.take_right();
  if (left == cr && right == lf) return false;
  if (ends_line(left) || ends_line(right)) return true;
  if (left == zwj && is_pictograph(reader.point())) return false;
  if ((left == space && right == space) || is_ignored(right)) return false;
  // What extends a character at the text's beginning extends nothing, and is the character itself.
  while (is_ignored(left) && reader.has_left()) left = reader.take_left();
  if (joins(left, right) || joins_by_context(left, right, reader)) return false;
  return left != regional || right != regional || !is_pair(reader, regional);
}

}  // namespace krill::regex
