// What follows a backslash, outside of character classes and inside.
#include <algorithm>
#include <utility>

#include "regex/errors.hpp"
#include "regex/parser.hpp"
#include "regex/unicode.hpp"

namespace krill::regex {
namespace {

constexpr uint32_t kMostBackrefs = 1000;
constexpr uint32_t kMostCode = 0x1fffff;  // what the peer has bytes for

bool is_hex(uint32_t point) {
  return (point >= '0' && point <= '9') || (point >= 'a' && point <= 'f') || (point >= 'A' && point <= 'F');
}

bool is_digit_of(uint32_t point, unsigned shift) {
  return shift == 4 ? is_hex(point) : point >= '0' && point <= '7';
}

uint32_t digit_value(uint32_t point) {
  if (point <= '9') return point - '0';
  return (point | 0x20) - 'a' + 10;
}

}  // namespace

CodeSet Parser::named(std::string_view name) const {
  CodeSet set;
  if (!find_property(name, set)) refuse("invalid character property name");
  constexpr std::string_view kTypes[] = {"alnum", "alpha", "blank", "cntrl",  "digit", "graph",    "lower",
                                         "print", "space", "upper", "xdigit", "word",  "[:punct:]"};
  if (name == "(word)") name = "word";
  if (name.starts_with('[') && name != "[:punct:]") name = name.substr(2, name.size() - 4);
  const bool is_type = std::find(std::begin(kTypes), std::end(kTypes), name) != std::end(kTypes);
  const bool ascii = (is_type && options_.ascii_posix) || (name == "word" && options_.ascii_word) ||
                     (name == "digit" && options_.ascii_digit) || (name == "space" && options_.ascii_space);
  return ascii ? set.intersection({0, 0x7f}) : set;
}

CodeSet Parser::property(bool& negated, bool in_class) {
  std::string name;
  const auto add = [&](uint32_t point) {
    if (point >= 0x80) refuse("invalid character property name");
    if (point == ' ' || point == '-' || point == '_') return;
    name.push_back(static_cast<char>(point >= 'A' && point <= 'Z' ? point + 0x20 : point));
  };
  ++at_;  // the brace
  if (take('^')) negated = !negated;
  for (;;) {
    const uint32_t point = next("end of pattern in a character property");
    if (point == '}') return named(name != "word" ? name : in_class ? "[:word:]" : "(word)");
    if (point == '(' || point == ')' || point == '{' || point == '|')
      refuse("invalid character property name");
    add(point);
  }
}

bool Parser::char_type(uint32_t letter, CodeSet& set, bool& negated, bool in_class) {
  negated = letter < 'a';
  switch (letter | 0x20) {
    case 'w': set = named(in_class ? "[:word:]" : "(word)"); return true;
    case 'd': set = named("[:digit:]"); return true;
    case 's': set = named("[:space:]"); return true;
    case 'h': set = named("[:xdigit:]"); return true;
    case 'p':
      if (!peek_is('{')) return false;
      set = property(negated, in_class);
      return true;
    default: return false;
  }
}

// `\c`, `\C-`, `\M-`, or a letter for a control character; any other character is itself.
uint32_t Parser::escaped_value() {
  const auto inner = [&](uint32_t point) { return point == '\\' ? escaped_value() : point; };
  const uint32_t letter = next("end of pattern at an escape");
  switch (letter) {
    case 'M':
      if (next("end of pattern at meta") != '-') refuse("invalid meta-code syntax");
      return (inner(next("end of pattern at meta")) & 0xff) | 0x80;
    case 'C':
      if (next("end of pattern at control") != '-') refuse("invalid control-code syntax");
      [[fallthrough]];
    case 'c': {
      const uint32_t point = next("end of pattern at control");
      return point == '?' ? 0x7f : inner(point) & 0x9f;
    }
    case 'n': return '\n';
    case 't': return '\t';
    case 'r': return '\r';
    case 'f': return '\f';
    case 'a': return '\a';
    case 'b': return '\b';
    case 'e': return 0x1b;
    case 'v': return '\v';
    default: return letter;
  }
}

uint32_t Parser::code_of_digits(unsigned shift, size_t least, size_t most) {
  uint64_t code = 0;
  size_t count = 0;
  for (; count < most && !at_end() && is_digit_of(peek(), shift); ++count, ++at_) {
    code = code << shift | digit_value(peek());
    if (code > UINT32_MAX) refuse("too big number");
  }
  if (count < least) refuse("invalid code point value");
  return static_cast<uint32_t>(code);
}

// After `\x` or `\o`: `{` and a number; false, and nothing is read, if there is none.
bool Parser::braced_code(unsigned shift, size_t most, uint32_t& point) {
  const size_t begin = at_;
  if (!take('{')) return false;
  const size_t digits = at_;
  point = code_of_digits(shift, 0, most);
  if (!at_end() && (shift == 4 ? is_hex(peek()) : peek() >= '0' && peek() <= '9'))
    refuse("too long wide-char value");
  if (at_ == digits) {
    at_ = begin;
    return false;
  }
  if (at_end()) refuse("invalid code point value");
  if (!take('}')) throw Unsupported("a list of code points in braces");
  return true;
}

// The next byte that is written as `\xHH`, or as `\nnn` if `shift` is 3; nothing is read if there is none.
bool Parser::crude_byte(unsigned shift, bool in_class, uint32_t& byte) {
  const size_t begin = at_;
  if (!take('\\') || at_end()) {
    at_ = begin;
    return false;
  }
  if (shift == 4 && take('x') && !peek_is('{')) {
    byte = code_of_digits(4, 0, 2);
    return true;
  }
  if (shift == 3 && !at_end() && peek() >= '0' && peek() <= (in_class ? '7' : '0')) {
    byte = code_of_digits(3, 0, 3) & 0xff;
    return true;
  }
  at_ = begin;
  return false;
}

// Bytes that are written as numbers make up one character.
uint32_t Parser::crude_character(uint32_t first, unsigned shift, bool in_class) {
  if (first < 0x80) return first;
  if (first > 0xf4) throw Unsupported("a byte that no character begins with");
  if (first < 0xc2) refuse("invalid or too short multibyte string");
  const size_t more = first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
  uint32_t point = first & (0x3fu >> more);
  for (size_t count = 0; count < more; ++count) {
    uint32_t byte = 0;
    if (!crude_byte(shift, in_class, byte)) refuse("too short multibyte string");
    if ((byte & 0xc0) != 0x80) refuse("invalid wide-char value");
    point = point << 6 | (byte & 0x3f);
  }
  return point;
}

bool Parser::coded_character(uint32_t letter, uint32_t& point, bool in_class) {
  if (at_end() && (letter == 'x' || letter == 'u')) return false;
  if (letter == 'x') {
    if (!braced_code(4, 8, point)) {
      if (peek_is('{')) return false;
      point = crude_character(code_of_digits(4, 0, 2), 4, in_class);
    }
  } else if (letter == 'o') {
    if (!braced_code(3, 11, point)) return false;
  } else if (letter == 'u') {
    point = code_of_digits(4, 4, 4);
  } else if (letter >= '0' && letter <= '7') {
    // Outside of classes `\0` is followed by two more digits at most.
    if (in_class || letter != '0') --at_;
    const uint32_t code = code_of_digits(3, 0, in_class || letter != '0' ? 3 : 2);
    if (in_class && code > 0xff) refuse("too big number");
    point = crude_character(code & 0xff, 3, in_class);
  } else {
    return false;
  }
  return true;
}

NodePtr Parser::anchor(Anchor kind) {
  NodePtr node = make(Kind::anchor);
  node->anchor = kind;
  node->ascii = options_.ascii_word || options_.ascii_posix;
  node->of_words = options_.word_segments;
  return node;
}

// `\r\n`, or one character that ends lines but for a `\r` before a `\n`.
NodePtr Parser::general_newline() {
  CodeSet others('\n', '\f');
  others.add(0x85);
  others.add(0x2028, 0x2029);
  NodePtr ahead = make(Kind::look);
  ahead->negative = true;
  ahead->of_newline = true;
  ahead->children.push_back(make_set({'\n', '\n'}));
  NodePtr node = make(Kind::alt);
  node->children.push_back(make_list(make_set({'\r', '\r'}), make_set({'\n', '\n'})));
  node->children.push_back(make_set(std::move(others)));
  node->children.push_back(make_list(make_set({'\r', '\r'}), std::move(ahead)));
  NodePtr whole = make(Kind::group);
  whole->children.push_back(std::move(node));
  return whole;
}

NodePtr Parser::reference(uint32_t number) {
  require_group(number);
  NodePtr node = make(Kind::backref);
  node->number = number;
  node->ignore_case = options_.ignore_case;
  return node;
}

// `\1` and so on, of which those without a group may be octal numbers.
NodePtr Parser::back_reference() {
  const size_t begin = --at_;
  uint64_t number = 0;
  for (; !at_end() && peek() >= '0' && peek() <= '9'; ++at_)
    number = std::min<uint64_t>(number * 10 + peek() - '0', UINT32_MAX);
  if (number <= kMostBackrefs && (number <= groups_ || number <= 9)) {
    has_numbered_backrefs_ = true;
    return reference(static_cast<uint32_t>(number));
  }
  at_ = begin + 1;
  if (points_[begin] >= '8') return literal(points_[begin]);
  uint32_t point = 0;
  coded_character(points_[begin], point, false);
  return literal(point);
}

NodePtr Parser::named_back_reference() {
  const uint32_t end = next("end of pattern at an escape") == '<' ? '>' : '\'';
  if (at_end()) refuse("group name is empty");
  const bool back = take('-');
  const bool ahead = !back && take('+');
  if (!at_end() && peek() >= '0' && peek() <= '9') {
    uint64_t number = 0;
    for (; !at_end() && peek() >= '0' && peek() <= '9'; ++at_)
      number = std::min<uint64_t>(number * 10 + peek() - '0', INT32_MAX);
    if (peek_is('+') || peek_is('-')) throw Unsupported("a reference with a level");
    if (!take(end)) refuse("invalid group name");
    if (back && (number == 0 || number > groups_)) refuse("invalid backref number");
    if (!back && number == 0) refuse("invalid backref number");
    has_numbered_backrefs_ = true;
    return reference(static_cast<uint32_t>(back ? groups_ + 1 - number : ahead ? groups_ + number : number));
  }
  if (back || ahead) refuse("invalid group name");
  const size_t begin = at_;
  while (!at_end() && peek() != end && peek() != '+' && peek() != '-' && peek() != ')') ++at_;
  if (peek_is('+') || peek_is('-')) throw Unsupported("a reference with a level");
  at_ = begin;
  const auto found = names_.find(name_until(end));
  if (found == names_.end()) refuse("undefined name reference");
  if (found->second.size() == 1) return reference(found->second.front());
  // The last one that matches here, and no other one afterwards.
  NodePtr either = make(Kind::alt);
  for (size_t at = found->second.size(); at-- > 0;) either->children.push_back(reference(found->second[at]));
  NodePtr atomic = make(Kind::atomic);
  atomic->children.push_back(std::move(either));
  return atomic;
}

NodePtr Parser::escape() {
  const uint32_t letter = next("end of pattern at an escape");
  CodeSet set;
  bool negated = false;
  switch (letter) {
    case 'b': return anchor(Anchor::word);
    case 'B': return anchor(Anchor::not_word);
    case 'A': return anchor(Anchor::begin_text);
    case 'z': return anchor(Anchor::end_text);
    case 'Z': return anchor(Anchor::end_text_or_newline);
    case 'G': return anchor(Anchor::begin_search);
    case 'R': return general_newline();
    case 'N': return make_set(CodeSet('\n', '\n').complement());
    case 'O': return make_set(CodeSet::all());
    case 'X': return text_segment();
    case 'y': return anchor(Anchor::segment);
    case 'Y': return anchor(Anchor::not_segment);
    case 'K': has_keep_ = true; return anchor(Anchor::keep);
    case 'k':
      if (peek_is('<') || peek_is('\'')) return named_back_reference();
      return literal(letter);
    case 'g':
      if (peek_is('<') || peek_is('\'')) return call();
      return literal(letter);
    default: break;
  }
  if (letter >= '1' && letter <= '9') return back_reference();
  if (letter < 0x80 && char_type(letter, set, negated, false))
    return make_set(negated ? set.complement() : set);
  uint32_t point = 0;
  if (coded_character(letter, point, false)) {
    if (point > kMostCode) refuse("invalid code point value");
    return literal(point);
  }
  --at_;
  return literal(escaped_value());
}

}  // namespace krill::regex
