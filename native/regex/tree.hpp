// A regex as a tree, in the terms of its matcher: sets of characters, not letters and escapes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "regex/code_set.hpp"

namespace krill::regex {

enum class Kind : uint8_t {
  empty,
  literal,  // `points`, one after the other; gone once the tree is expanded
  set,      // one character of `set`
  list,     // all children, one after the other
  alt,      // the first child that lets the rest match
  repeat,   // the child, `lower` to `upper` times
  group,    // the child; `number` is its number as a capture
  atomic,   // the child, without going back into it
  anchor,   // a place
  look,     // whether the child matches ahead or behind
  backref,  // what the group of `number` matched
  check,    // whether one of the groups `points` has matched
  absent,   // the second child, before the place where the first one would match; without a second, all that
            // follows stays before that place; without any, it may pass it again
  condition,  // the first child decides, without going back into it, whether the second or the third has to
              // match
  call,       // the body of the group of `number`, or of the name `points`; gone once the pattern is parsed
};

enum class Anchor : uint8_t {
  begin_text,
  end_text,
  end_text_or_newline,  // \Z
  begin_line,
  end_line,
  begin_search,  // \G
  word,
  not_word,
  keep,         // \K: the match begins here
  segment,      // \y
  not_segment,  // \Y
};

constexpr uint32_t kUnlimited = UINT32_MAX;

struct Node;
using NodePtr = std::unique_ptr<Node>;

struct Node {
  explicit Node(Kind of) : kind(of) {}

  Kind kind;
  Anchor anchor = Anchor::begin_text;
  bool greedy = true;
  bool behind = false;       // of a look: what stands before
  bool negative = false;     // of a look
  bool ignore_case = false;  // of a literal or a backref
  bool ascii = false;        // of \b and \B
  bool of_newline = false;   // of a look: a part of \R
  bool of_literal = false;   // of a list or a set: a literal
  bool of_class = false;     // of an alt: a character class
  bool of_words = false;     // of \y and \Y: segments are words
  uint32_t lower = 0;
  uint32_t upper = 0;
  uint32_t number = 0;
  std::vector<uint32_t> points;
  CodeSet set;
  std::vector<NodePtr> children;
};

struct Tree {
  NodePtr root;
  uint32_t groups = 0;  // captures are numbered from 1
  bool has_backrefs = false;
  bool has_keep = false;
};

// The tree of a pattern in Oniguruma's own syntax, as Hugging Face's tokenizers take it. Throws
// std::invalid_argument if that would refuse it, and Unsupported if it would not.
Tree parse(std::string_view pattern);

NodePtr make(Kind kind);
NodePtr make_set(CodeSet set);
NodePtr make_list(NodePtr first, NodePtr second);

// Fewest characters that a node matches.
uint32_t least_length(const Node& node);
// Most characters that a node matches, or kUnlimited.
uint32_t greatest_length(const Node& node);
// Of a node that always matches one character whatever surrounds it, these characters.
bool as_set(const Node& node, CodeSet& set);

}  // namespace krill::regex
