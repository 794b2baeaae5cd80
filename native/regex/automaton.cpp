#include "regex/automaton.hpp"

#include <algorithm>
#include <utility>

#include "regex/unicode.hpp"

namespace krill::regex {
namespace {

constexpr size_t kMostStates = 4000;

// Thrown and caught here: the pattern needs another matcher.
struct NotRegular {};

bool needs_word(const Node& node) {
  return node.kind == Kind::anchor && (node.anchor == Anchor::word || node.anchor == Anchor::not_word);
}

CodeSet word_set(bool ascii) {
  CodeSet set;
  find_property("(word)", set);
  return ascii ? set.intersection({0, 0x7f}) : set;
}

// Whether a node matches nothing at all at any place.
bool always_matches(const Node& node) {
  const auto child_does = [](const NodePtr& child) { return always_matches(*child); };
  switch (node.kind) {
    case Kind::empty: return true;
    case Kind::repeat: return node.lower == 0 || always_matches(*node.children[0]);
    case Kind::group:
    case Kind::atomic: return always_matches(*node.children[0]);
    case Kind::list: return std::all_of(node.children.begin(), node.children.end(), child_does);
    case Kind::alt: return std::any_of(node.children.begin(), node.children.end(), child_does);
    default: return false;
  }
}

// The characters with which a match of a node can begin, if it takes one at least.
bool first_set(const Node& node, CodeSet& set) {
  switch (node.kind) {
    case Kind::set: set.add(node.set); return true;
    case Kind::group:
    case Kind::atomic: return first_set(*node.children[0], set);
    case Kind::list: return first_set(*node.children[0], set);
    case Kind::repeat: return node.lower > 0 && first_set(*node.children[0], set);
    case Kind::alt:
      return std::all_of(node.children.begin(), node.children.end(),
                         [&](const NodePtr& child) { return first_set(*child, set); });
    default: return false;
  }
}

// Whether there is at most one way to match a node at a place.
bool is_determined(const Node& node) {
  switch (node.kind) {
    case Kind::empty:
    case Kind::set:
    case Kind::anchor:
    case Kind::look:
    case Kind::atomic: return true;
    case Kind::group: return is_determined(*node.children[0]);
    case Kind::repeat: return node.lower == node.upper && is_determined(*node.children[0]);
    case Kind::list:
      return std::all_of(node.children.begin(), node.children.end(),
                         [](const NodePtr& child) { return is_determined(*child); });
    case Kind::alt: {
      CodeSet seen;
      for (const NodePtr& child : node.children) {
        CodeSet first;
        if (!is_determined(*child) || !first_set(*child, first) || !first.intersection(seen).empty())
          return false;
        seen.add(first);
      }
      return true;
    }
    default: return false;
  }
}

class Builder {
 public:
  explicit Builder(const Tree& tree) {
    if (tree.has_backrefs) throw NotRegular();
    collect(*tree.root);
    if (!automaton_.symbols.build(sets_)) throw NotRegular();
    AutomatonState match{};
    match.kind = AutomatonState::Kind::match;
    const uint32_t end = add(match);
    automaton_.start = build(*tree.root, end, true);
  }

  Automaton take() { return std::move(automaton_); }

 private:
  using State = AutomatonState;

  void collect(const Node& node) {
    if (node.kind == Kind::set) number_of(node.set, true);
    if (needs_word(node)) number_of(word_set(node.ascii), true);
    if (node.kind == Kind::anchor && (node.anchor == Anchor::begin_line || node.anchor == Anchor::end_line))
      number_of({'\n', '\n'}, true);
    for (const NodePtr& child : node.children) collect(*child);
  }

  size_t number_of(const CodeSet& set, bool adding) {
    const auto found = std::find(sets_.begin(), sets_.end(), set);
    if (found == sets_.end() && adding) sets_.push_back(set);
    return static_cast<size_t>(found - sets_.begin());
  }

  const SymbolSet& symbols_of(const CodeSet& set) { return automaton_.symbols.of_set(number_of(set, false)); }

  // The symbols of a node that matches one character whatever surrounds it.
  bool one_symbol(const Node& node, SymbolSet& symbols) {
    CodeSet unused;
    if (!as_set(node, unused)) return false;
    add_symbols(node, symbols);
    return true;
  }

  void add_symbols(const Node& node, SymbolSet& symbols) {
    if (node.kind == Kind::set) symbols |= symbols_of(node.set);
    for (const NodePtr& child : node.children) add_symbols(*child, symbols);
  }

  uint32_t add(const State& state) {
    if (automaton_.states.size() >= kMostStates) throw NotRegular();
    automaton_.states.push_back(state);
    return static_cast<uint32_t>(automaton_.states.size() - 1);
  }

  uint32_t add_set(const SymbolSet& symbols, uint32_t next) {
    State state{};
    state.kind = State::Kind::set;
    state.symbols = symbols;
    state.next = next;
    return add(state);
  }

  uint32_t add_split(uint32_t first, uint32_t second) {
    State state{};
    state.kind = State::Kind::split;
    state.next = first;
    state.other = second;
    return add(state);
  }

  uint32_t add_assertion(Assertion::Kind kind, const SymbolSet& symbols, uint32_t next) {
    State state{};
    state.kind = State::Kind::assertion;
    state.assertion = static_cast<uint32_t>(automaton_.assertions.size());
    state.next = next;
    automaton_.assertions.push_back({kind, symbols});
    return add(state);
  }

  // `is_last`: nothing but the end of the match follows, so that the first way to match a node is the one.
  uint32_t build(const Node& node, uint32_t next, bool is_last) {
    switch (node.kind) {
      case Kind::empty: return next;
      case Kind::set: return add_set(symbols_of(node.set), next);
      case Kind::list:
        for (size_t at = node.children.size(); at-- > 0;) {
          next = build(*node.children[at], next, is_last);
          is_last = false;
        }
        return next;
      case Kind::alt: return build_alt(node, next, is_last);
      case Kind::repeat: return build_repeat(node, next, is_last);
      case Kind::group: return build(*node.children[0], next, is_last);
      case Kind::atomic: return build_atomic(node, next, is_last);
      case Kind::anchor: return build_anchor(node, next);
      case Kind::look: return build_look(node, next);
      default: throw NotRegular();
    }
  }

  uint32_t build_alt(const Node& node, uint32_t next, bool is_last) {
    SymbolSet symbols;
    if (one_symbol(node, symbols)) return add_set(symbols, next);
    uint32_t rest = build(*node.children.back(), next, is_last);
    for (size_t at = node.children.size() - 1; at-- > 0;)
      rest = add_split(build(*node.children[at], next, is_last), rest);
    return rest;
  }

  uint32_t choice(bool greedy, uint32_t body, uint32_t exit) {
    return greedy ? add_split(body, exit) : add_split(exit, body);
  }

  uint32_t build_repeat(const Node& node, uint32_t next, bool is_last) {
    const Node& body = *node.children[0];
    if (node.upper == 0) return next;
    if (node.lower == 1 && node.upper == 1) return build(body, next, is_last);
    if (node.upper == 1) return choice(node.greedy, build(body, next, is_last), next);
    // Where a turn that matches nothing ends the repetition, the order of ways is another one.
    if (least_length(body) == 0) throw NotRegular();
    uint32_t at = next;
    if (node.upper == kUnlimited) {
      const uint32_t loop = choice(node.greedy, 0, next);
      const uint32_t turn = build(body, loop, false);
      (node.greedy ? automaton_.states[loop].next : automaton_.states[loop].other) = turn;
      at = loop;
    } else {
      for (uint32_t count = node.lower; count < node.upper; ++count)
        at = choice(node.greedy, build(body, at, false), next);
    }
    for (uint32_t count = 0; count < node.lower; ++count) at = build(body, at, false);
    return at;
  }

  // Of a repeated character, giving none back means that no further one of its kind follows.
  uint32_t build_atomic(const Node& node, uint32_t next, bool is_last) {
    const Node* body = node.children[0].get();
    while (body->kind == Kind::group || body->kind == Kind::atomic ||
           (body->kind == Kind::list && body->children.size() == 1))
      body = body->children[0].get();
    if (is_last || is_determined(*body)) return build(*body, next, is_last);
    SymbolSet symbols;
    if (body->kind != Kind::repeat || !one_symbol(*body->children[0], symbols)) throw NotRegular();
    uint32_t at = next;
    if (body->greedy) {
      const uint32_t exit = add_assertion(Assertion::Kind::next, ~symbols, next);
      if (body->upper == kUnlimited) {
        at = add_split(0, exit);
        const uint32_t turn = add_set(symbols, at);
        automaton_.states[at].next = turn;
      } else {
        for (uint32_t count = body->lower; count < body->upper; ++count)
          at = add_split(add_set(symbols, at), exit);
      }
    }
    for (uint32_t count = 0; count < body->lower; ++count) at = add_set(symbols, at);
    return at;
  }

  uint32_t build_anchor(const Node& node, uint32_t next) {
    const Symbols& all = automaton_.symbols;
    SymbolSet symbols;
    switch (node.anchor) {
      case Anchor::begin_text:
        symbols.set(all.begin());
        return add_assertion(Assertion::Kind::previous, symbols, next);
      case Anchor::end_text:
        symbols.set(all.end());
        return add_assertion(Assertion::Kind::next, symbols, next);
      case Anchor::begin_line:
        return add_assertion(Assertion::Kind::begin_line, symbols_of({'\n', '\n'}), next);
      case Anchor::end_line:
        symbols = symbols_of({'\n', '\n'});
        symbols.set(all.end());
        return add_assertion(Assertion::Kind::next, symbols, next);
      case Anchor::word: return add_assertion(Assertion::Kind::word, symbols_of(word_set(node.ascii)), next);
      case Anchor::not_word:
        return add_assertion(Assertion::Kind::not_word, symbols_of(word_set(node.ascii)), next);
      default: throw NotRegular();
    }
  }

  uint32_t build_look(const Node& node, uint32_t next) {
    // A place is the same ahead and behind.
    if (!node.negative && node.children[0]->kind == Kind::anchor)
      return build_anchor(*node.children[0], next);
    SymbolSet symbols;
    const bool is_one =
        node.behind ? symbols_behind(*node.children[0], symbols) : symbols_ahead(*node.children[0], symbols);
    if (!is_one) throw NotRegular();
    return add_assertion(node.behind ? Assertion::Kind::previous : Assertion::Kind::next,
                         node.negative ? ~symbols : symbols, next);
  }

  // The symbols that follow, if they alone decide whether a node matches.
  bool symbols_ahead(const Node& node, SymbolSet& symbols) {
    if (always_matches(node)) {
      symbols.set();
      return true;
    }
    switch (node.kind) {
      case Kind::set: symbols |= symbols_of(node.set); return true;
      case Kind::group:
      case Kind::atomic: return symbols_ahead(*node.children[0], symbols);
      case Kind::repeat: return node.lower == 1 && symbols_ahead(*node.children[0], symbols);
      case Kind::alt:
        return std::all_of(node.children.begin(), node.children.end(),
                           [&](const NodePtr& child) { return symbols_ahead(*child, symbols); });
      case Kind::list:
        return std::all_of(node.children.begin() + 1, node.children.end(),
                           [](const NodePtr& child) { return always_matches(*child); }) &&
               symbols_ahead(*node.children[0], symbols);
      case Kind::anchor:
        if (node.anchor == Anchor::end_line) symbols |= symbols_of({'\n', '\n'});
        symbols.set(automaton_.symbols.end());
        return node.anchor == Anchor::end_line || node.anchor == Anchor::end_text;
      default: return false;
    }
  }

  // The symbols that stand before, if they alone decide whether a node matches.
  bool symbols_behind(const Node& node, SymbolSet& symbols) {
    if (always_matches(node)) {
      symbols.set();
      return true;
    }
    switch (node.kind) {
      case Kind::set: symbols |= symbols_of(node.set); return true;
      case Kind::group: return symbols_behind(*node.children[0], symbols);
      case Kind::repeat: return node.lower == 1 && symbols_behind(*node.children[0], symbols);
      case Kind::alt:
        return std::all_of(node.children.begin(), node.children.end(),
                           [&](const NodePtr& child) { return symbols_behind(*child, symbols); });
      case Kind::anchor: symbols.set(automaton_.symbols.begin()); return node.anchor == Anchor::begin_text;
      default: return false;
    }
  }

  Automaton automaton_;
  std::vector<CodeSet> sets_;
};

}  // namespace

std::optional<Automaton> make_automaton(const Tree& tree) {
  try {
    return Builder(tree).take();
  } catch (const NotRegular&) {
    return std::nullopt;
  }
}

}  // namespace krill::regex
