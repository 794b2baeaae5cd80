// Reads a pattern in Oniguruma's own syntax (ONIG_SYNTAX_ONIGURUMA, which Hugging Face's tokenizers use).
//
// In: a pattern. Out: a tree, or an error for what Oniguruma refuses, or what is not supported here. Held in
// memory: the pattern's code points and the tree.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "regex/tree.hpp"

namespace krill::regex {

struct Options {
  bool ignore_case = false;
  bool dot_newline = false;
  bool extended = false;
  bool ascii_word = false;
  bool ascii_digit = false;
  bool ascii_space = false;
  bool ascii_posix = false;
  bool word_segments = false;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern);
  Tree parse();

 private:
  struct Quantifier {
    uint32_t lower;
    uint32_t upper;
    bool greedy;
    bool possessive;
  };
  class Depth;

  // parser.cpp: alternatives, atoms, quantifiers, groups
  NodePtr alternatives(bool in_group);
  NodePtr branch(bool in_group);
  NodePtr expression(bool in_group);
  NodePtr atom(bool in_group, bool& is_group, bool& ends_branch);
  NodePtr group(bool in_group, bool& is_group, bool& ends_branch);
  NodePtr special_group(bool in_group, bool& is_group, bool& ends_branch);
  NodePtr option_group(uint32_t letter, bool in_group, bool& ends_branch);
  NodePtr named_group(uint32_t end);
  NodePtr body(NodePtr node);
  std::string name_until(uint32_t end);
  bool quantifier(Quantifier& found);
  bool interval(Quantifier& found);
  NodePtr repeated(NodePtr target, const Quantifier& quantifier);
  void skip();
  void skip_comment();

  // parser_escapes.cpp: what follows a backslash
  NodePtr escape();
  NodePtr back_reference();
  NodePtr named_back_reference();
  NodePtr reference(uint32_t number);
  NodePtr call();
  NodePtr general_newline();
  NodePtr anchor(Anchor kind);
  uint32_t escaped_value();
  // What `\x{`, `\xHH`, `\uHHHH`, `\o{` and `\nnn` stand for; false if they are none.
  bool coded_character(uint32_t letter, uint32_t& point, bool in_class);
  bool braced_code(unsigned shift, size_t most, uint32_t& point);
  uint32_t code_of_digits(unsigned shift, size_t least, size_t most);
  uint32_t crude_character(uint32_t first, unsigned shift, bool in_class);
  bool crude_byte(unsigned shift, bool in_class, uint32_t& byte);
  // `\w`, `\D`, `\p{...}` and so on; false if it is none. `set` is without the negation.
  bool char_type(uint32_t letter, CodeSet& set, bool& negated, bool in_class);
  CodeSet property(bool& negated, bool in_class);
  CodeSet named(std::string_view name) const;

  // parser_conditions.cpp: absent operators, conditions, text segments
  NodePtr absent();
  NodePtr condition();
  NodePtr group_check(bool& is_other);
  NodePtr text_segment();
  void segment_option(Options& options);
  void require_group(uint32_t number);

  // parser_calls.cpp: calls of groups
  class Calls;
  void inline_calls(Node& root);

  // parser_class.cpp: character classes
  NodePtr bracket();
  struct CharacterClass;
  void class_value(CharacterClass& parsed, uint32_t point) const;
  void class_type(CharacterClass& parsed, const CodeSet& set, bool negated) const;
  void class_item(CharacterClass& parsed);
  void class_escape(CharacterClass& parsed);
  void class_hyphen(CharacterClass& parsed);
  void class_intersection(CharacterClass& parsed) const;
  bool posix_bracket(CharacterClass& parsed);
  CodeSet character_class(bool& negated, bool& from_zero);

  NodePtr literal(uint32_t point) const;
  bool at_end() const { return at_ >= points_.size(); }
  uint32_t peek() const { return at_end() ? 0 : points_[at_]; }
  bool peek_is(uint32_t point) const { return !at_end() && points_[at_] == point; }
  uint32_t next(const char* error);
  bool take(uint32_t point);

  std::vector<uint32_t> points_;
  size_t at_ = 0;
  size_t depth_ = 0;
  Options options_;
  uint32_t groups_ = 0;
  std::vector<bool> closed_;        // by group
  std::vector<bool> named_groups_;  // by group
  std::map<std::string, std::vector<uint32_t>> names_;
  uint32_t greatest_reference_ = 0;  // of groups
  bool has_backrefs_ = false;
  bool has_numbered_backrefs_ = false;
  bool has_calls_ = false;
  bool has_conditions_ = false;  // or absent operators
  bool has_keep_ = false;
};

}  // namespace krill::regex
