#include "regex/parser.hpp"

#include <algorithm>
#include <utility>

#include "regex/errors.hpp"
#include "regex/tree_expansion.hpp"
#include "regex/unicode.hpp"

namespace krill::regex {
namespace {

constexpr size_t kMostDepth = 500;
constexpr uint32_t kMostRepeats = 100'000;
constexpr uint32_t kMostGroups = 32'767;

// Quantifiers on quantifiers become one where that is the same; by the numbers of `? * + ?? *? +?`, the inner
// one first, as the peer does it.
enum class Merged : uint8_t { as_is, inner, star, plus, lazy_star, lazy_optional, plus_and_lazy_optional };

constexpr Merged kMerged[6][6] = {
    {Merged::inner, Merged::star, Merged::star, Merged::lazy_optional, Merged::lazy_star, Merged::as_is},
    {Merged::inner, Merged::inner, Merged::inner, Merged::plus_and_lazy_optional,
     Merged::plus_and_lazy_optional, Merged::inner},
    {Merged::star, Merged::star, Merged::inner, Merged::as_is, Merged::plus_and_lazy_optional, Merged::inner},
    {Merged::inner, Merged::lazy_star, Merged::lazy_star, Merged::inner, Merged::lazy_star,
     Merged::lazy_star},
    {Merged::inner, Merged::inner, Merged::inner, Merged::inner, Merged::inner, Merged::inner},
    {Merged::as_is, Merged::star, Merged::plus, Merged::lazy_star, Merged::lazy_star, Merged::inner},
};

int popular(const Node& repeat) {
  const int lazy = repeat.greedy ? 0 : 3;
  if (repeat.lower == 0 && repeat.upper == 1) return lazy;
  if (repeat.lower == 0 && repeat.upper == kUnlimited) return lazy + 1;
  if (repeat.lower == 1 && repeat.upper == kUnlimited) return lazy + 2;
  return -1;
}

NodePtr make_repeat(NodePtr child, uint32_t lower, uint32_t upper, bool greedy) {
  NodePtr node = make(Kind::repeat);
  node->lower = lower;
  node->upper = upper;
  node->greedy = greedy;
  node->children.push_back(std::move(child));
  return node;
}

// Both numbers are those of `{n}`.
NodePtr multiplied(NodePtr inner, uint32_t times) {
  const uint64_t product = uint64_t{inner->lower} * times;
  if (product > INT32_MAX) refuse("too big number for a repeat range");
  inner->lower = inner->upper = static_cast<uint32_t>(product);
  return inner;
}

NodePtr merged(NodePtr inner, NodePtr outer) {
  const int inner_number = popular(*inner);
  const int outer_number = popular(*outer);
  const auto changed = [&](uint32_t lower, uint32_t upper, bool greedy) {
    inner->lower = lower;
    inner->upper = upper;
    inner->greedy = greedy;
    return std::move(inner);
  };
  if (inner_number < 0 || outer_number < 0) {
    if (inner->lower == inner->upper && outer->lower == outer->upper)
      return multiplied(std::move(inner), outer->lower);
    if (outer_number < 0 && (inner_number == 1 || inner_number == 2) && outer->upper != kUnlimited &&
        outer->upper > 1 && outer->greedy)
      outer->upper = outer->lower == 0 ? 1 : outer->lower;
    outer->children.push_back(std::move(inner));
    return outer;
  }
  switch (kMerged[inner_number][outer_number]) {
    case Merged::inner: return inner;
    case Merged::star: return changed(0, kUnlimited, true);
    case Merged::plus: return changed(1, kUnlimited, true);
    case Merged::lazy_star: return changed(0, kUnlimited, false);
    case Merged::lazy_optional: return changed(0, 1, false);
    case Merged::plus_and_lazy_optional: {
      NodePtr plus = changed(1, kUnlimited, true);
      return make_repeat(std::move(plus), 0, 1, false);
    }
    case Merged::as_is: break;
  }
  outer->children.push_back(std::move(inner));
  return outer;
}

bool cannot_be_repeated(const Node& node) {
  if (node.kind == Kind::anchor || node.kind == Kind::look) return true;
  if (node.kind != Kind::alt) return false;
  return std::any_of(node.children.begin(), node.children.end(),
                     [](const NodePtr& child) { return cannot_be_repeated(*child); });
}

std::vector<uint32_t> decoded(std::string_view text) {
  std::vector<uint32_t> points;
  for (size_t at = 0; at < text.size();) {
    const auto lead = static_cast<uint8_t>(text[at++]);
    const size_t more = lead < 0x80 ? 0 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
    if ((lead >= 0x80 && lead < 0xc2) || lead > 0xf4 || text.size() - at < more)
      refuse("the pattern is not UTF-8");
    uint32_t point = more == 0 ? lead : lead & (0x3fu >> more);
    for (size_t count = 0; count < more; ++count) {
      const auto byte = static_cast<uint8_t>(text[at++]);
      if ((byte & 0xc0) != 0x80) refuse("the pattern is not UTF-8");
      point = point << 6 | (byte & 0x3fu);
    }
    points.push_back(point);
  }
  return points;
}

}  // namespace

// Patterns that nest deeper than any written by a person would take the stack.
class Parser::Depth {
 public:
  explicit Depth(Parser& parser) : parser_(parser) {
    if (++parser_.depth_ > kMostDepth) throw Unsupported("a pattern that is nested so deeply");
  }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() { --parser_.depth_; }

 private:
  Parser& parser_;
};

Parser::Parser(std::string_view pattern) : points_(decoded(pattern)), closed_(1), named_groups_(1) {}

Tree Parser::parse() {
  Tree tree;
  tree.root = alternatives(false);
  if (!at_end()) refuse("unmatched close parenthesis");
  if (!names_.empty() && has_numbered_backrefs_)
    refuse("numbered backref is not allowed beside named groups");
  if (greatest_reference_ > groups_) refuse("invalid backref number");
  if (has_calls_) inline_calls(*tree.root);
  tree.groups = groups_;
  tree.has_backrefs = has_backrefs_;
  tree.has_keep = has_keep_;
  expand(tree, names_.empty() ? std::vector<bool>(groups_ + 1, true) : named_groups_);
  return tree;
}

uint32_t Parser::next(const char* error) {
  if (at_end()) refuse(error);
  return points_[at_++];
}

bool Parser::take(uint32_t point) {
  if (!peek_is(point)) return false;
  ++at_;
  return true;
}

NodePtr Parser::literal(uint32_t point) const {
  NodePtr node = make(Kind::literal);
  node->points.push_back(point);
  node->ignore_case = options_.ignore_case;
  return node;
}

void Parser::skip_comment() {
  at_ += 3;
  for (;;) {
    const uint32_t point = next("end of pattern in a group");
    if (point == ')') return;
    if (point == '\\' && !at_end()) ++at_;
  }
}

// What stands between tokens: comments, and in an extended pattern spaces too.
void Parser::skip() {
  while (!at_end()) {
    const uint32_t point = peek();
    if (point == '(' && at_ + 2 < points_.size() && points_[at_ + 1] == '?' && points_[at_ + 2] == '#') {
      skip_comment();
    } else if (options_.extended && point == '#') {
      while (!at_end() && points_[at_++] != '\n') {
      }
    } else if (options_.extended && (point == ' ' || (point >= '\t' && point <= '\r' && point != '\v'))) {
      ++at_;
    } else {
      return;
    }
  }
}

NodePtr Parser::alternatives(bool in_group) {
  const Depth depth(*this);
  const Options outside = options_;
  NodePtr first = branch(in_group);
  if (peek_is('|')) {
    NodePtr node = make(Kind::alt);
    node->children.push_back(std::move(first));
    while (take('|')) node->children.push_back(branch(in_group));
    first = std::move(node);
  }
  if (in_group && at_end()) refuse("end of pattern with unmatched parenthesis");
  options_ = outside;
  return first;
}

NodePtr Parser::branch(bool in_group) {
  const auto ends = [&] {
    skip();
    return at_end() || peek_is('|') || (in_group && peek_is(')'));
  };
  if (ends()) return make(Kind::empty);
  NodePtr first = expression(in_group);
  if (ends()) return first;
  NodePtr list = make(Kind::list);
  list->children.push_back(std::move(first));
  while (!ends()) {
    NodePtr node = expression(in_group);
    if (node->kind == Kind::list) {
      for (NodePtr& child : node->children) list->children.push_back(std::move(child));
    } else {
      list->children.push_back(std::move(node));
    }
  }
  return list;
}

NodePtr Parser::expression(bool in_group) {
  const Depth depth(*this);
  bool is_group = false;
  bool ends_branch = false;
  NodePtr node = atom(in_group, is_group, ends_branch);
  if (ends_branch) return node;
  NodePtr before;  // characters of the same literal that are not repeated
  Quantifier found{};
  for (skip(); quantifier(found); skip()) {
    if (cannot_be_repeated(*node)) {
      // As the first thing in a condition, the peer takes some of them.
      if (is_group && has_conditions_)
        throw Unsupported("a repeated group without characters in a condition");
      refuse("target of a repeat operator is invalid");
    }
    if (!is_group && node->kind == Kind::literal && node->points.size() > 1 &&
        (found.lower != 1 || found.upper != 1)) {
      NodePtr last = make(Kind::literal);
      last->ignore_case = node->ignore_case;
      last->points.push_back(node->points.back());
      node->points.pop_back();
      before = std::exchange(node, std::move(last));
    }
    node = repeated(std::move(node), found);
    is_group = false;
  }
  return before ? make_list(std::move(before), std::move(node)) : std::move(node);
}

NodePtr Parser::repeated(NodePtr target, const Quantifier& quantifier) {
  if (quantifier.lower == 1 && quantifier.upper == 1) return target;
  NodePtr node = make(Kind::repeat);
  node->lower = quantifier.lower;
  node->upper = quantifier.upper;
  node->greedy = quantifier.greedy;
  if (target->kind == Kind::repeat) {
    node = merged(std::move(target), std::move(node));
  } else {
    node->children.push_back(std::move(target));
  }
  if (!quantifier.possessive) return node;
  NodePtr atomic = make(Kind::atomic);
  atomic->children.push_back(std::move(node));
  return atomic;
}

// `{n,m}`, `{n,}`, `{,m}`, `{n}`; anything else is a brace and what follows.
bool Parser::interval(Quantifier& found) {
  const size_t begin = at_++;
  const auto number = [&](bool& present) {
    uint64_t value = 0;
    const size_t digits = at_;
    for (; !at_end() && peek() >= '0' && peek() <= '9'; ++at_)
      value = std::min<uint64_t>(value * 10 + peek() - '0', UINT32_MAX);
    present = at_ > digits;
    if (value > kMostRepeats) refuse("too big number for a repeat range");
    return static_cast<uint32_t>(value);
  };
  bool has_lower = false;
  bool has_upper = false;
  found = {number(has_lower), 0, true, false};
  bool fixed = false;
  if (take(',')) {
    found.upper = number(has_upper);
    if (!has_upper) found.upper = kUnlimited;
  } else {
    found.upper = found.lower;
    fixed = true;
  }
  if ((!has_lower && !has_upper) || !take('}')) {
    at_ = begin;
    return false;
  }
  if (found.lower > found.upper) {
    std::swap(found.lower, found.upper);
    found.possessive = true;
  } else if (!fixed && take('?')) {
    found.greedy = false;
  }
  return true;
}

bool Parser::quantifier(Quantifier& found) {
  if (at_end()) return false;
  switch (peek()) {
    case '*': found = {0, kUnlimited, true, false}; break;
    case '+': found = {1, kUnlimited, true, false}; break;
    case '?': found = {0, 1, true, false}; break;
    case '{': return interval(found);
    default: return false;
  }
  ++at_;
  if (take('?')) {
    found.greedy = false;
  } else if (take('+')) {
    found.possessive = true;
  }
  return true;
}

NodePtr Parser::atom(bool in_group, bool& is_group, bool& ends_branch) {
  Quantifier unwanted{};
  if (quantifier(unwanted)) refuse("target of a repeat operator is not specified");
  const uint32_t point = points_[at_++];
  switch (point) {
    case '(': return group(in_group, is_group, ends_branch);
    case ')':
      if (!in_group) refuse("unmatched close parenthesis");
      break;
    case '\\': return escape();
    case '[': return bracket();
    case '.': {
      CodeSet set = CodeSet::all();
      if (!options_.dot_newline) set = CodeSet('\n', '\n').complement();
      return make_set(std::move(set));
    }
    case '^': return anchor(Anchor::begin_line);
    case '$': return anchor(Anchor::end_line);
    default: break;
  }
  NodePtr node = literal(point);
  // What is a letter to the end of the pattern or to a character that may mean something else.
  constexpr std::string_view kMeta = "()\\[].^$*+?{}| \t\n\r\f#";
  while (!at_end() && (peek() >= 0x80 || kMeta.find(static_cast<char>(peek())) == std::string_view::npos))
    node->points.push_back(points_[at_++]);
  return node;
}

NodePtr Parser::body(NodePtr node) {
  node->children.push_back(alternatives(true));
  ++at_;  // the parenthesis
  return node;
}

NodePtr Parser::group(bool in_group, bool& is_group, bool& ends_branch) {
  if (at_end()) refuse("end of pattern with unmatched parenthesis");
  if (take('?')) return special_group(in_group, is_group, ends_branch);
  if (peek_is('*')) throw Unsupported("a callout");
  if (++groups_ > kMostGroups) refuse("too many capture groups");
  NodePtr node = make(Kind::group);
  node->number = groups_;
  closed_.push_back(false);
  named_groups_.push_back(false);
  node = body(std::move(node));
  closed_[node->number] = true;
  return node;
}

NodePtr Parser::special_group(bool in_group, bool& is_group, bool& ends_branch) {
  const auto look = [&](bool behind, bool negative) {
    NodePtr node = make(Kind::look);
    node->behind = behind;
    node->negative = negative;
    return body(std::move(node));
  };
  const uint32_t letter = next("end of pattern in a group");
  switch (letter) {
    case ':': {
      is_group = true;
      NodePtr node = alternatives(true);
      ++at_;
      return node;
    }
    case '=': return look(false, false);
    case '!': return look(false, true);
    case '>': return body(make(Kind::atomic));
    case '\'': return named_group('\'');
    case '<':
      if (at_end()) refuse("end of pattern with unmatched parenthesis");
      if (take('=')) return look(true, false);
      if (take('!')) return look(true, true);
      return named_group('>');
    case '~': return absent();
    case '{': throw Unsupported("a callout");
    case '(': return condition();
    default: return option_group(letter, in_group, ends_branch);
  }
}

std::string Parser::name_until(uint32_t end) {
  static const CodeSet words = [] {
    CodeSet set;
    find_property("(word)", set);
    return set;
  }();
  std::string name;
  for (;;) {
    const uint32_t point = next("invalid group name");
    if (point == end) break;
    if (!words.contains(point)) refuse("invalid character in a group name");
    for (uint32_t rest = point; rest != 0; rest >>= 8) name.push_back(static_cast<char>(rest & 0xff));
    name.push_back('\0');
  }
  if (name.empty()) refuse("group name is empty");
  return name;
}

NodePtr Parser::named_group(uint32_t end) {
  if (!at_end() && peek() >= '0' && peek() <= '9') refuse("invalid group name");
  const std::string name = name_until(end);
  if (++groups_ > kMostGroups) refuse("too many capture groups");
  names_[name].push_back(groups_);
  NodePtr node = make(Kind::group);
  node->number = groups_;
  closed_.push_back(false);
  named_groups_.push_back(true);
  node = body(std::move(node));
  closed_[node->number] = true;
  return node;
}

// `(?imx-imx)`, to the end of the group around it, and `(?imx-imx:...)`.
NodePtr Parser::option_group(uint32_t letter, bool in_group, bool& ends_branch) {
  Options options = options_;
  bool on = true;
  for (;; letter = next("end of pattern in a group")) {
    switch (letter) {
      case '-': on = false; continue;
      case 'x': options.extended = on; continue;
      case 'i': options.ignore_case = on; continue;
      case 'm': options.dot_newline = on; continue;
      case 'W': options.ascii_word = on; continue;
      case 'D': options.ascii_digit = on; continue;
      case 'S': options.ascii_space = on; continue;
      case 'P': options.ascii_posix = on; continue;
      case 'y':
        if (!on) refuse("undefined group option");
        segment_option(options);
        continue;
      case 'C':
      case 'I':
      case 'L': throw Unsupported("an option of the whole pattern");
      case ')':
      case ':': break;
      default: refuse("undefined group option");
    }
    break;
  }
  const Options outside = std::exchange(options_, options);
  NodePtr node = make(Kind::group);
  if (letter == ')') {
    // What ends the group around it, or the pattern, ends these alternatives, and is not taken here.
    ends_branch = true;
    node->children.push_back(alternatives(in_group));
  } else {
    node = body(std::move(node));
  }
  options_ = outside;
  return node;
}

}  // namespace krill::regex
