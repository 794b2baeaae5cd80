// Character classes: `[...]`, with ranges, classes inside, intersections and POSIX brackets.
#include <utility>

#include "regex/errors.hpp"
#include "regex/parser.hpp"
#include "regex/unicode.hpp"

namespace krill::regex {

// A class while it is read. A value is added once it is known that it does not begin a range.
struct Parser::CharacterClass {
  enum class State : uint8_t { start, value, range, complete };

  CodeSet set;
  CodeSet before;  // what stands before `&&`
  bool is_intersection = false;
  bool from_zero = false;  // has a range from U+0000 beyond ASCII
  State state = State::start;
  bool has_value = false;  // of the states value and range: `value` is a character, not a type of characters
  uint32_t value = 0;

  void add_value() {
    if (state == State::value && has_value) set.add(value);
  }
};

namespace {

constexpr uint32_t kMostEncoded = 0x1fffff;

bool is_letter_of_name(uint32_t point) {
  static const CodeSet letters = [] {
    CodeSet set;
    find_property("alpha", set);
    return set;
  }();
  return letters.contains(point);
}

}  // namespace

void Parser::class_value(CharacterClass& parsed, uint32_t point) const {
  using State = CharacterClass::State;
  if (point > kMostEncoded && parsed.state != State::range) refuse("invalid code point value");
  switch (parsed.state) {
    case State::value: parsed.add_value(); break;
    case State::range:
      if (parsed.value > point) refuse("empty range in char class");
      parsed.set.add(parsed.value, point);
      parsed.from_zero |= parsed.value == 0 && point >= 0x80;
      parsed.state = State::complete;
      break;
    case State::complete:
    case State::start: parsed.state = State::value; break;
  }
  parsed.value = point;
  parsed.has_value = true;
}

void Parser::class_type(CharacterClass& parsed, const CodeSet& set, bool negated) const {
  using State = CharacterClass::State;
  if (parsed.state == State::range) refuse("char-class value at end of range");
  parsed.add_value();
  parsed.set.add(negated ? set.complement() : set);
  parsed.state = State::value;
  parsed.has_value = false;
}

void Parser::class_escape(CharacterClass& parsed) {
  const uint32_t letter = next("end of pattern at an escape");
  CodeSet set;
  bool negated = false;
  uint32_t point = 0;
  if (letter < 0x80 && char_type(letter, set, negated, true)) {
    class_type(parsed, set, negated);
  } else if (coded_character(letter, point, true)) {
    class_value(parsed, point);
  } else {
    --at_;
    class_value(parsed, escaped_value());
  }
}

// A hyphen is itself at the beginning and at the end, and where it can't be a range.
void Parser::class_hyphen(CharacterClass& parsed) {
  using State = CharacterClass::State;
  const bool ends = peek_is(']') || (peek_is('&') && at_ + 1 < points_.size() && points_[at_ + 1] == '&');
  if (parsed.state != State::value || ends) return class_value(parsed, '-');
  if (at_end()) refuse("premature end of char-class");
  if (!parsed.has_value) refuse("unmatched range specifier in char-class");
  parsed.state = State::range;
}

void Parser::class_intersection(CharacterClass& parsed) const {
  parsed.add_value();
  parsed.before = parsed.is_intersection ? parsed.before.intersection(parsed.set) : std::move(parsed.set);
  parsed.set = {};
  parsed.is_intersection = true;
  parsed.state = CharacterClass::State::start;
}

// After `[`: `:name:]`, or nothing is read.
bool Parser::posix_bracket(CharacterClass& parsed) {
  if (!peek_is(':')) return false;
  size_t at = at_ + 1;
  const bool negated = at < points_.size() && points_[at] == '^';
  if (negated) ++at;
  std::string name;
  for (; at < points_.size() && is_letter_of_name(points_[at]); ++at)
    name.push_back(points_[at] < 0x80 ? static_cast<char>(points_[at]) : '?');
  if (at + 1 >= points_.size() || points_[at] != ':' || points_[at + 1] != ']' || (name.empty() && !negated))
    return false;
  constexpr std::string_view kNames =
      " alnum alpha blank cntrl digit graph lower print punct space upper xdigit ascii word ";
  if (name.empty() || kNames.find(" " + name + " ") == std::string_view::npos)
    refuse("invalid POSIX bracket type");
  at_ = at + 2;
  class_type(parsed, named("[:" + name + ":]"), negated);
  return true;
}

void Parser::class_item(CharacterClass& parsed) {
  using State = CharacterClass::State;
  const uint32_t point = next("premature end of char-class");
  if (point == '\\') return class_escape(parsed);
  if (point == '-') {
    if (parsed.state == State::range) return class_value(parsed, '-');
    return class_hyphen(parsed);
  }
  if (point == '&' && take('&')) return class_intersection(parsed);
  if (point != '[') return class_value(parsed, point);
  if (posix_bracket(parsed)) return;
  parsed.add_value();
  parsed.state = State::complete;
  bool negated = false;
  bool from_zero = false;
  const CodeSet inner = character_class(negated, from_zero);
  // There, the peer takes what is left of it for something else.
  if (negated && (from_zero || CodeSet(0x80, kLastPoint).intersection(inner.complement()).empty()))
    throw Unsupported("a class of all characters beyond ASCII, negated inside of another");
  parsed.from_zero |= from_zero;
  parsed.set.add(negated ? inner.complement() : inner);
}

CodeSet Parser::character_class(bool& negated, bool& from_zero) {
  if (++depth_ > 200) throw Unsupported("a class that is nested so deeply");
  negated = take('^');
  CharacterClass parsed;
  if (peek_is(']')) {
    ++at_;
    bool closes = false;
    for (size_t at = at_; at < points_.size(); ++at) closes |= points_[at] == ']';
    if (!closes) refuse("empty char-class");
    class_value(parsed, ']');
  }
  while (!take(']')) class_item(parsed);
  parsed.add_value();
  --depth_;
  from_zero = parsed.from_zero;
  return parsed.is_intersection ? parsed.before.intersection(parsed.set) : parsed.set;
}

NodePtr Parser::bracket() {
  bool negated = false;
  bool from_zero = false;
  CodeSet set = character_class(negated, from_zero);
  if (!options_.ignore_case) return make_set(negated ? set.complement() : std::move(set));
  const CaseFolding& folding = CaseFolding::instance();
  set = folding.closed(set);
  if (negated) return make_set(set.complement());
  // Characters that are the same as two or three others match these, too.
  NodePtr node = make(Kind::alt);
  node->of_class = true;
  node->children.push_back(make_set(set));
  for (size_t length = 2; length <= 3; ++length) {
    for (const FoldedSequence& sequence : folding.sequences()) {
      if (sequence.points.size() != length || !set.contains(sequence.point)) continue;
      NodePtr list = make(Kind::list);
      for (const uint32_t point : sequence.points) list->children.push_back(make_set(folding.same_as(point)));
      node->children.push_back(std::move(list));
    }
  }
  return node->children.size() == 1 ? std::move(node->children.front()) : std::move(node);
}

}  // namespace krill::regex
