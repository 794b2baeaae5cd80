#include "regex/tree.hpp"

#include <algorithm>
#include <utility>

#include "regex/parser.hpp"

namespace krill::regex {
namespace {

uint32_t plus(uint32_t a, uint32_t b) {
  return a == kUnlimited || b == kUnlimited
             ? kUnlimited
             : static_cast<uint32_t>(std::min<uint64_t>(uint64_t{a} + b, kUnlimited));
}

uint32_t times(uint32_t a, uint32_t b) {
  if (a == 0 || b == 0) return 0;
  return static_cast<uint32_t>(std::min<uint64_t>(uint64_t{a} * b, kUnlimited));
}

}  // namespace

Tree parse(std::string_view pattern) { return Parser(pattern).parse(); }

NodePtr make(Kind kind) { return std::make_unique<Node>(kind); }

NodePtr make_set(CodeSet set) {
  NodePtr node = make(Kind::set);
  node->set = std::move(set);
  return node;
}

NodePtr make_list(NodePtr first, NodePtr second) {
  NodePtr node = make(Kind::list);
  node->children.push_back(std::move(first));
  node->children.push_back(std::move(second));
  return node;
}

uint32_t least_length(const Node& node) {
  switch (node.kind) {
    case Kind::set: return 1;
    case Kind::literal: return static_cast<uint32_t>(node.points.size());
    case Kind::list: {
      uint32_t sum = 0;
      for (const NodePtr& child : node.children) sum = plus(sum, least_length(*child));
      return sum;
    }
    case Kind::alt: {
      uint32_t least = kUnlimited;
      for (const NodePtr& child : node.children) least = std::min(least, least_length(*child));
      return least;
    }
    case Kind::repeat: return times(node.lower, least_length(*node.children[0]));
    case Kind::group:
    case Kind::atomic: return least_length(*node.children[0]);
    case Kind::absent: return node.children.size() < 2 ? 0 : least_length(*node.children[1]);
    case Kind::condition:
      return std::min(plus(least_length(*node.children[0]), least_length(*node.children[1])),
                      least_length(*node.children[2]));
    default: return 0;
  }
}

uint32_t greatest_length(const Node& node) {
  switch (node.kind) {
    case Kind::set: return 1;
    case Kind::literal: return static_cast<uint32_t>(node.points.size());
    case Kind::list: {
      uint32_t sum = 0;
      for (const NodePtr& child : node.children) sum = plus(sum, greatest_length(*child));
      return sum;
    }
    case Kind::alt: {
      uint32_t greatest = 0;
      for (const NodePtr& child : node.children) greatest = std::max(greatest, greatest_length(*child));
      return greatest;
    }
    case Kind::repeat:
      // Also of nothing, as the peer counts it.
      return node.upper == kUnlimited ? kUnlimited : times(node.upper, greatest_length(*node.children[0]));
    case Kind::group:
    case Kind::atomic: return greatest_length(*node.children[0]);
    case Kind::backref: return kUnlimited;
    default: return 0;
  }
}

bool as_set(const Node& node, CodeSet& set) {
  switch (node.kind) {
    case Kind::set: set = node.set; return true;
    case Kind::group:
    case Kind::atomic: return as_set(*node.children[0], set);
    case Kind::list: return node.children.size() == 1 && as_set(*node.children[0], set);
    case Kind::alt: {
      CodeSet all;
      for (const NodePtr& child : node.children) {
        CodeSet one;
        if (!as_set(*child, one)) return false;
        all.add(one);
      }
      set = std::move(all);
      return true;
    }
    default: return false;
  }
}

}  // namespace krill::regex
