// A backtracking matcher, for patterns that no automaton with one character of context can match: back
// references, longer looks, atomic groups, turns of a repetition that match nothing.
//
// In: a tree; then text. Out: matches; std::runtime_error if finding one takes too many steps or too deep a
// stack. Held in memory: the program; for each thread a stack of up to 16 MB.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "regex/code_set.hpp"
#include "regex/match.hpp"
#include "regex/tree.hpp"

namespace krill::regex {

class Backtracker {
 public:
  explicit Backtracker(const Tree& tree);

  // The leftmost match that begins at `from` or later.
  bool find(const uint8_t* text, size_t size, size_t from, Match& match, StepBudget& budget) const;

  size_t bytes() const;

 private:
  class Compiler;
  class Machine;
  struct Frame;
  struct Stack;

  enum class Code : uint8_t {
    set,          // a: set
    repeat_set,   // a: set, b: least, c: most; how in `mode`
    jump,         // a: where
    split,        // a: what is tried first, b: second
    assign,       // register a is the place
    reset,        // register a is 0
    turn,         // after a turn of register a: b: least, c: most; the body is at `target`
    empty_check,  // goes to b if nothing was taken since register a
    mark,         // register a is the height of the stack
    cut,          // forgets the ways back to register a
    look_end,     // cut, then the place is register b again
    not_end,      // the negative look matched: undoes all to register a, then fails
    limit,        // register a is the place before which a look behind has to end
    step_back,    // b: least, c: most characters
    behind_end,   // fails unless the place is register a
    unlimit,      // the limit is register a again
    advance,      // takes a character, or goes to a at the limit
    found,  // undoes all to register a, and goes to b with the place that the way pushed first goes back to
    cut_range,    // register a is the limit, the limit is the place, which is register b again
    whole_range,  // the limit is the text's end
    check,        // fails unless the group a has matched
    anchor,       // a: which; b: set of word characters, or 1 for segments that are words
    backref,      // a: number; b: 1 if case is ignored
    match,
  };

  struct Op {
    Code code;
    uint8_t mode = 0;
    uint32_t a = 0;
    uint32_t b = 0;
    uint32_t c = 0;
    uint32_t target = 0;
  };

  struct SetTest {
    uint64_t ascii[2] = {};
    std::vector<Range> others;
    bool contains(uint32_t point) const;
  };

  static constexpr uint8_t kGreedy = 0;
  static constexpr uint8_t kLazy = 1;
  static constexpr uint8_t kPossessive = 2;

  std::vector<Op> ops_;
  std::vector<SetTest> sets_;
  uint32_t registers_ = 0;
  uint32_t limit_ = 0;      // the register that says where characters end
  uint32_t keep_ = 0;       // the register that says where the match begins, unless it is `limit_`
  uint32_t first_set_ = 0;  // with which a match begins, if `has_first_set_`
  bool has_first_set_ = false;
};

}  // namespace krill::regex
