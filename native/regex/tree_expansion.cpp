#include "regex/tree_expansion.hpp"

#include <algorithm>
#include <utility>

#include "regex/errors.hpp"
#include "regex/unicode.hpp"

namespace krill::regex {
namespace {

constexpr uint32_t kMostLookBehind = 65'535;

class Expansion {
 public:
  Expansion(const std::vector<bool>& captures, bool has_backrefs)
      : captures_(captures), has_backrefs_(has_backrefs) {}

  void expand(NodePtr& node, bool behind) {
    switch (node->kind) {
      case Kind::literal: node = expanded_literal(*node, behind); return;
      case Kind::group:
        if (node->number != 0 && !captures_[node->number]) node->number = 0;
        break;
      case Kind::list: join_literals(*node); break;
      case Kind::absent:
        // There, what is absent is forgotten when the inner one ends.
        if (!node->children.empty() && has_absent(*node->children[0]))
          throw Unsupported("an absent operator in what is absent");
        break;
      case Kind::look:
        if (node->negative && cuts_range(*node))
          throw Unsupported("an absent operator without an end in a negative look");
        if (node->behind) check_behind(*node->children[0], node->negative);
        [[fallthrough]];
      case Kind::repeat:
      case Kind::atomic:
        if (has_keep(*node)) throw Unsupported("\\K in a repetition, an atomic group or a look");
        break;
      default: break;
    }
    const bool inside = behind || (node->kind == Kind::look && node->behind);
    for (NodePtr& child : node->children) expand(child, inside);
    if (node->kind == Kind::look && node->behind) finish_behind(node);
    if (node->kind == Kind::repeat && has_backrefs_ && node->upper > 1 && has_captures(*node->children[0]) &&
        least_length(*node->children[0]) == 0)
      throw Unsupported("a repeated group that may be empty beside references to groups");
  }

 private:
  // Neighbours are one literal: `ss` is the same as one letter when case is ignored, however it is written.
  static void join_literals(Node& list) {
    std::vector<NodePtr> joined;
    for (NodePtr& child : list.children) {
      if (child->kind == Kind::literal && !joined.empty() && joined.back()->kind == Kind::literal &&
          joined.back()->ignore_case == child->ignore_case) {
        std::vector<uint32_t>& points = joined.back()->points;
        points.insert(points.end(), child->points.begin(), child->points.end());
      } else {
        joined.push_back(std::move(child));
      }
    }
    list.children = std::move(joined);
  }

  // One character, two or three of a literal whose case is ignored, and how many they are.
  static NodePtr folded(const uint32_t* points, size_t count, bool behind, size_t& taken) {
    const CaseFolding& folding = CaseFolding::instance();
    taken = 1;
    if (behind) return make_set(folding.same_as(points[0]));
    CodeSet ones;
    const size_t length = folding.match_sequence(points, count, ones);
    std::vector<uint32_t> others(points, points + length);
    if (length == 0) {
      ones = folding.same_as(points[0]);
      for (const FoldedSequence& sequence : folding.sequences()) {
        if (sequence.point == points[0]) others = sequence.points;
      }
    }
    if (others.empty()) return make_set(std::move(ones));
    if (length != 0) taken = length;
    NodePtr list = make(Kind::list);
    for (const uint32_t point : others) list->children.push_back(make_set(folding.same_as(point)));
    NodePtr either = make(Kind::alt);
    either->children.push_back(make_set(std::move(ones)));
    either->children.push_back(std::move(list));
    return either;
  }

  static NodePtr expanded_literal(const Node& literal, bool behind) {
    NodePtr list = make(Kind::list);
    list->of_literal = !literal.ignore_case;
    const std::vector<uint32_t>& points = literal.points;
    for (size_t at = 0; at < points.size();) {
      size_t taken = 1;
      if (literal.ignore_case) {
        list->children.push_back(folded(points.data() + at, points.size() - at, behind, taken));
      } else {
        list->children.push_back(make_set({points[at], points[at]}));
      }
      at += taken;
    }
    if (list->children.size() > 1) return list;
    list->children.front()->of_literal = list->of_literal;
    return std::move(list->children.front());
  }

  // What the peer allows in a look behind, and what is supported of it.
  void check_behind(const Node& node, bool negative) const {
    if (node.kind == Kind::backref) throw Unsupported("a reference in a look-behind");
    if (node.kind == Kind::absent && node.children.size() < 2) refuse("invalid pattern in look-behind");
    if (node.kind == Kind::absent || node.kind == Kind::condition || node.kind == Kind::check)
      throw Unsupported("an absent operator or a condition in a look-behind");
    if (node.kind == Kind::look) {
      if (node.of_newline) throw Unsupported("\\R in a look-behind");
      if (!node.behind || (node.negative && !negative)) refuse("invalid pattern in look-behind");
      throw Unsupported("a look-behind in a look-behind");
    }
    if (node.kind == Kind::anchor &&
        (node.anchor == Anchor::end_text || node.anchor == Anchor::end_text_or_newline))
      refuse("invalid pattern in look-behind");
    if (node.kind == Kind::group && node.number != 0 && captures_[node.number]) {
      if (negative) refuse("invalid pattern in look-behind");
      if (has_backrefs_) throw Unsupported("a group in a look-behind beside references to groups");
    }
    for (const NodePtr& child : node.children) check_behind(*child, negative);
  }

  static bool is_fixed(const NodePtr& node) { return least_length(*node) == greatest_length(*node); }

  // As the peer does, alternatives of different lengths are looked for one by one.
  static void finish_behind(NodePtr& look) {
    Node& body = *look->children[0];
    check_length(body);
    if (is_fixed(look->children[0])) return;
    if (body.kind != Kind::alt || !std::all_of(body.children.begin(), body.children.end(), is_fixed)) {
      return;
    }
    NodePtr all = make(look->negative ? Kind::list : Kind::alt);
    for (NodePtr& child : body.children) {
      NodePtr one = make(Kind::look);
      one->behind = true;
      one->negative = look->negative;
      one->children.push_back(std::move(child));
      all->children.push_back(std::move(one));
    }
    look = make(Kind::group);
    look->children.push_back(std::move(all));
  }

  static void check_length(const Node& body) {
    const uint32_t greatest = greatest_length(body);
    if (least_length(body) > kMostLookBehind || (greatest != kUnlimited && greatest > kMostLookBehind))
      refuse("invalid pattern in look-behind");
    // An oversight of the peer: it drops what may be left out from the front, and fails if nothing remains.
    if (may_be_dropped(body)) refuse("invalid pattern in look-behind");
    for (const NodePtr& child : body.children) {
      if (body.kind == Kind::alt && may_be_dropped(*child)) refuse("invalid pattern in look-behind");
    }
  }

  static bool may_be_dropped(const Node& list) {
    return list.kind == Kind::list && !list.of_literal &&
           std::all_of(list.children.begin(), list.children.end(), [](const NodePtr& child) {
             return child->kind == Kind::repeat && child->lower == 0 && is_simple(*child->children[0]);
           });
  }

  // A literal, also one that the peer writes out, or a set.
  static bool is_simple(const Node& node) {
    if (node.kind == Kind::set || node.kind == Kind::empty || node.of_literal) return true;
    return node.kind == Kind::repeat && node.lower == node.upper && node.lower > 1 &&
           node.children[0]->of_literal && uint64_t{node.lower} * encoded_size(*node.children[0]) <= 100;
  }

  static uint64_t encoded_size(const Node& literal) {
    uint64_t sum = 0;
    for (const NodePtr& child : literal.children) sum += encoded_size(*child);
    for (const Range& range : literal.set.ranges())
      sum += range.first < 0x80 ? 1 : range.first < 0x800 ? 2 : range.first < 0x10000 ? 3 : 4;
    return sum;
  }

  static bool has_keep(const Node& node) {
    return (node.kind == Kind::anchor && node.anchor == Anchor::keep) ||
           std::any_of(node.children.begin(), node.children.end(),
                       [](const NodePtr& child) { return has_keep(*child); });
  }

  static bool has_absent(const Node& node) {
    return node.kind == Kind::absent || std::any_of(node.children.begin(), node.children.end(),
                                                    [](const NodePtr& child) { return has_absent(*child); });
  }

  static bool cuts_range(const Node& node) {
    return (node.kind == Kind::absent && node.children.size() < 2) ||
           std::any_of(node.children.begin(), node.children.end(),
                       [](const NodePtr& child) { return cuts_range(*child); });
  }

  static bool has_captures(const Node& node) {
    if (node.kind == Kind::group && node.number != 0) return true;
    for (const NodePtr& child : node.children) {
      if (has_captures(*child)) return true;
    }
    return false;
  }

  const std::vector<bool>& captures_;
  bool has_backrefs_;
};

}  // namespace

void expand(Tree& tree, const std::vector<bool>& captures) {
  Expansion(captures, tree.has_backrefs).expand(tree.root, false);
}

}  // namespace krill::regex
