// The tree of a pattern as a nondeterministic automaton whose branches are in order of preference, for
// patterns that look at no more than one character before and after a place.
//
// In: a tree. Out: states, or nothing for patterns that need more: back references, longer looks, atomic
// groups into which a match could go back. Held in memory: the states; their number is limited.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "regex/symbols.hpp"
#include "regex/tree.hpp"

namespace krill::regex {

struct Assertion {
  enum class Kind : uint8_t { next, previous, word, not_word, begin_line };
  Kind kind;
  SymbolSet symbols;  // that may stand there; those of words; those of newlines

  bool holds(size_t previous, size_t next, const Symbols& all) const {
    switch (kind) {
      case Kind::next: return symbols[next];
      case Kind::previous: return symbols[previous];
      case Kind::word: return symbols[previous] != symbols[next];
      case Kind::not_word: return symbols[previous] == symbols[next];
      case Kind::begin_line: return previous == all.begin() || (symbols[previous] && next != all.end());
    }
    return false;
  }

  bool looks_back() const { return kind != Kind::next; }
};

struct AutomatonState {
  enum class Kind : uint8_t { set, split, assertion, match };
  Kind kind;
  uint32_t next = 0;
  uint32_t other = 0;      // of a split: what is tried second
  uint32_t assertion = 0;  // its number
  SymbolSet symbols;       // of a set
};

struct Automaton {
  Symbols symbols;
  std::vector<AutomatonState> states;
  std::vector<Assertion> assertions;
  uint32_t start = 0;
};

std::optional<Automaton> make_automaton(const Tree& tree);

}  // namespace krill::regex
