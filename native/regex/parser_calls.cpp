// Calls of groups, `\g<name>`: the group's body is written out in the place of each.
#include <algorithm>
#include <utility>

#include "regex/errors.hpp"
#include "regex/parser.hpp"

namespace krill::regex {
namespace {

constexpr size_t kMostCopied = 10'000;  // nodes

}  // namespace

class Parser::Calls {
 public:
  Calls(const std::map<std::string, std::vector<uint32_t>>& names, uint32_t groups, Node& root)
      : names_(names), groups_(groups + 1), states_(groups + 1, State::unknown) {
    find_groups(root);
  }

  void resolve(Node& node, bool behind) {
    if (node.kind == Kind::call) return write_out(node, behind);
    const bool is_group = node.kind == Kind::group && node.number != 0;
    if (is_group) states_[node.number] = State::open;
    const bool inside = behind || (node.kind == Kind::look && node.behind);
    for (const NodePtr& child : node.children) resolve(*child, inside);
    if (is_group) states_[node.number] = State::resolved;
  }

 private:
  enum class State : uint8_t { unknown, open, resolved };

  void find_groups(Node& node) {
    if (node.kind == Kind::group) groups_[node.number] = &node;
    for (const NodePtr& child : node.children) find_groups(*child);
  }

  uint32_t number_of(const Node& call) const {
    if (call.points.empty()) {
      if (!names_.empty()) refuse("numbered call is not allowed beside named groups");
      if (call.number >= groups_.size()) refuse("undefined group reference");
      return call.number;
    }
    const auto found = names_.find(std::string(call.points.begin(), call.points.end()));
    if (found == names_.end()) refuse("undefined name call");
    if (found->second.size() > 1) refuse("call of a name with several definitions");
    return found->second.front();
  }

  void write_out(Node& call, bool behind) {
    const uint32_t number = number_of(call);
    if (number == 0 || states_[number] == State::open) throw Unsupported("a group that calls itself");
    if (behind) throw Unsupported("a call of a group in a look-behind");
    if (states_[number] == State::unknown) resolve(*groups_[number], false);
    const Node& body = *groups_[number]->children[0];
    if (least_length(body) == 0) throw Unsupported("a call of a group that may be empty");
    call.kind = Kind::group;
    call.number = 0;
    call.points.clear();
    call.children.push_back(copy(body));
  }

  NodePtr copy(const Node& node) {
    if (++copied_ > kMostCopied) throw Unsupported("a pattern of this size");
    NodePtr made = make(node.kind);
    made->anchor = node.anchor;
    made->greedy = node.greedy;
    made->behind = node.behind;
    made->negative = node.negative;
    made->ignore_case = node.ignore_case;
    made->ascii = node.ascii;
    made->of_newline = node.of_newline;
    made->of_literal = node.of_literal;
    made->of_class = node.of_class;
    made->of_words = node.of_words;
    made->lower = node.lower;
    made->upper = node.upper;
    made->points = node.points;
    made->set = node.set;
    for (const NodePtr& child : node.children) made->children.push_back(copy(*child));
    return made;  // `number` is that of no group: nothing refers to what a copy matched
  }

  const std::map<std::string, std::vector<uint32_t>>& names_;
  std::vector<Node*> groups_;  // by number
  std::vector<State> states_;
  size_t copied_ = 0;
};

NodePtr Parser::call() {
  const uint32_t end = next("end of pattern at an escape") == '<' ? '>' : '\'';
  if (at_end()) refuse("group name is empty");
  NodePtr node = make(Kind::call);
  has_calls_ = true;
  const bool back = peek_is('-');
  const bool ahead = peek_is('+');
  if (back || ahead) ++at_;
  if (at_end() || peek() < '0' || peek() > '9') {
    if (back || ahead) refuse("invalid group name");
    const std::string name = name_until(end);
    node->points.assign(name.begin(), name.end());
    return node;
  }
  uint64_t number = 0;
  for (; !at_end() && peek() >= '0' && peek() <= '9'; ++at_)
    number = std::min<uint64_t>(number * 10 + peek() - '0', INT32_MAX);
  if (!take(end)) refuse("invalid group name");
  if (back && (number == 0 || number > groups_)) refuse("undefined group reference");
  if (ahead && number == 0) refuse("undefined group reference");
  node->number = static_cast<uint32_t>(back ? groups_ + 1 - number : ahead ? groups_ + number : number);
  return node;
}

void Parser::inline_calls(Node& root) {
  if (has_backrefs_) throw Unsupported("a call of a group beside references to groups");
  Calls(names_, groups_, root).resolve(root, false);
}

}  // namespace krill::regex
