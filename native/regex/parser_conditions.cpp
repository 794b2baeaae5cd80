// Groups that decide what comes after them: absent operators and conditions; and text segments.
#include <algorithm>
#include <utility>

#include "regex/errors.hpp"
#include "regex/parser.hpp"

namespace krill::regex {
namespace {

NodePtr repeated_character() {
  NodePtr any = make(Kind::repeat);
  any->upper = kUnlimited;
  any->children.push_back(make_set(CodeSet::all()));
  return any;
}

bool is_alternatives(const Node& node) { return node.kind == Kind::alt && !node.of_class; }

// The first of some alternatives, which loses it.
NodePtr take_first(NodePtr& alternatives) {
  NodePtr first = std::move(alternatives->children.front());
  alternatives->children.erase(alternatives->children.begin());
  if (alternatives->children.size() == 1) alternatives = std::move(alternatives->children.front());
  return first;
}

}  // namespace

// `(?~absent)`, `(?~|absent|expression)`, `(?~|absent)` and `(?~|)`.
NodePtr Parser::absent() {
  has_conditions_ = true;
  if (at_end()) refuse("end of pattern in a group");
  const bool has_bar = take('|');
  NodePtr node = make(Kind::absent);
  if (has_bar && at_end()) refuse("end of pattern in a group");
  if (has_bar && take(')')) return node;
  NodePtr inner = alternatives(true);
  ++at_;  // the parenthesis
  if (!has_bar) {
    node->children.push_back(std::move(inner));
    node->children.push_back(repeated_character());
  } else if (is_alternatives(*inner)) {
    node->children.push_back(take_first(inner));
    node->children.push_back(std::move(inner));
  } else {
    node->children.push_back(std::move(inner));
  }
  return node;
}

// After `(?(`: a group's number or name, and `)`. Nothing is read if it is another condition.
NodePtr Parser::group_check(bool& is_other) {
  const size_t begin = at_;
  const uint32_t first = points_[at_++];
  const bool is_enclosed = first == '<' || first == '\'';
  if (!is_enclosed) --at_;
  const uint32_t end = first == '<' ? '>' : first == '\'' ? '\'' : ')';
  const bool back = take('-');
  const bool ahead = !back && take('+');
  NodePtr node = make(Kind::check);
  if (!at_end() && peek() >= '0' && peek() <= '9') {
    uint64_t number = 0;
    for (; !at_end() && peek() >= '0' && peek() <= '9'; ++at_)
      number = std::min<uint64_t>(number * 10 + peek() - '0', INT32_MAX);
    if (peek_is('+') || peek_is('-')) throw Unsupported("a condition with a level");
    if (take(end)) {
      if (number == 0 || (back && number > groups_)) refuse("invalid backref number");
      has_numbered_backrefs_ = true;
      node->points.push_back(static_cast<uint32_t>(back    ? groups_ + 1 - number
                                                   : ahead ? groups_ + number
                                                           : number));
    }
  } else if (is_enclosed && !back && !ahead) {
    const auto found = names_.find(name_until(end));
    if (found == names_.end()) refuse("undefined name reference");
    node->points = found->second;
  }
  if (node->points.empty()) {
    if (is_enclosed) refuse("invalid group name");
    at_ = begin;
    is_other = true;
    return nullptr;
  }
  for (const uint32_t number : node->points) require_group(number);
  if (is_enclosed && !take(')')) refuse("end of pattern in a group");
  return node;
}

// `(?(condition)then|else)`, of which the condition may be a group that has matched, or any pattern.
NodePtr Parser::condition() {
  has_conditions_ = true;
  if (at_ + 1 >= points_.size()) refuse("end of pattern in a group");
  const uint32_t first = peek();
  if (first == '*' || (first == '?' && points_[at_ + 1] == '{')) throw Unsupported("a callout");
  constexpr std::string_view kOfGroups = "0123456789-+<'";
  bool is_other = first >= 0x80 || kOfGroups.find(static_cast<char>(first)) == std::string_view::npos;
  NodePtr decides = is_other ? nullptr : group_check(is_other);
  if (is_other) {
    decides = alternatives(true);
    ++at_;  // the parenthesis
  }
  if (at_end()) refuse("end of pattern in a group");
  if (take(')')) {
    if (is_other) refuse("invalid if-else syntax");
    return decides;
  }
  NodePtr node = make(Kind::condition);
  node->children.push_back(std::move(decides));
  const bool has_else_alone = take('|');
  NodePtr inner = alternatives(true);
  ++at_;  // the parenthesis
  // There, the peer takes it for something without length, and misses matches.
  if (!has_else_alone && !is_alternatives(*inner)) throw Unsupported("a condition without an alternative");
  node->children.push_back(has_else_alone ? make(Kind::empty) : take_first(inner));
  node->children.push_back(std::move(inner));
  return node;
}

// A group of this number has to be there in the end.
void Parser::require_group(uint32_t number) {
  if (number < closed_.size() && !closed_[number]) throw Unsupported("a reference to the group around it");
  greatest_reference_ = std::max(greatest_reference_, number);
  has_backrefs_ = true;
}

// `\X` is `(?>\O(?:\Y\O)*)`.
NodePtr Parser::text_segment() {
  NodePtr more = make(Kind::repeat);
  more->upper = kUnlimited;
  more->children.push_back(make_list(anchor(Anchor::not_segment), make_set(CodeSet::all())));
  NodePtr node = make(Kind::atomic);
  node->children.push_back(make_list(make_set(CodeSet::all()), std::move(more)));
  return node;
}

// After `(?y`: `{g}` for graphemes, `{w}` for words.
void Parser::segment_option(Options& options) {
  if (next("end of pattern in a group") != '{') refuse("undefined group option");
  const uint32_t letter = next("end of pattern in a group");
  if (letter != 'g' && letter != 'w') refuse("undefined group option");
  options.word_segments = letter == 'w';
  if (next("end of pattern in a group") != '}') refuse("undefined group option");
}

}  // namespace krill::regex
