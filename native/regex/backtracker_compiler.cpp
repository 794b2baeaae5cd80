// The program of a backtracking matcher.
#include <algorithm>
#include <utility>

#include "regex/backtracker.hpp"
#include "regex/errors.hpp"
#include "regex/unicode.hpp"

namespace krill::regex {
namespace {

constexpr size_t kMostOps = 100'000;
// The peer writes repetitions out up to this many operations. It shows where turns may match nothing.
constexpr uint64_t kWrittenOut = 10;

bool is_character(const Node& node) {
  return node.kind == Kind::set && node.set.ranges().size() == 1 &&
         node.set.ranges()[0].first == node.set.ranges()[0].last;
}

// About as many operations as the peer has for a node.
uint64_t operations(const Node& node) {
  switch (node.kind) {
    case Kind::empty: return 0;
    case Kind::list: {
      uint64_t sum = 0;
      bool in_string = false;
      for (const NodePtr& child : node.children) {
        const bool is_string = is_character(*child);
        if (!is_string || !in_string) sum += operations(*child);
        in_string = is_string;
      }
      return sum;
    }
    case Kind::alt: {
      uint64_t sum = 2 * (node.children.size() - 1);
      for (const NodePtr& child : node.children) sum += operations(*child);
      return sum;
    }
    case Kind::repeat: {
      const uint64_t body = operations(*node.children[0]);
      const uint64_t check = least_length(*node.children[0]) == 0 ? 2 : 0;
      if (node.upper == kUnlimited) return body * node.lower + body + check + 2;
      if (node.upper == 1) return body + 1;
      if ((body + 1) * node.upper <= kWrittenOut) return body * node.upper + (node.upper - node.lower);
      return body + check + 2;
    }
    case Kind::group: return operations(*node.children[0]) + (node.number != 0 ? 2 : 0);
    case Kind::atomic:
    case Kind::look: return operations(*node.children[0]) + 2;
    case Kind::absent: return kWrittenOut + 1;
    case Kind::condition:
      return operations(*node.children[0]) + operations(*node.children[1]) + operations(*node.children[2]) +
             5;
    default: return 1;
  }
}

bool begins_with(const Node& node, CodeSet& set) {
  switch (node.kind) {
    case Kind::set: set.add(node.set); return true;
    case Kind::group:
    case Kind::atomic: return begins_with(*node.children[0], set);
    case Kind::repeat: {
      CodeSet inner;
      if (node.lower == 0 || !begins_with(*node.children[0], inner)) return false;
      set.add(inner);
      return true;
    }
    case Kind::alt:
      return std::all_of(node.children.begin(), node.children.end(),
                         [&](const NodePtr& child) { return begins_with(*child, set); });
    case Kind::list:
      for (const NodePtr& child : node.children) {
        if (child->kind == Kind::look || child->kind == Kind::anchor) continue;
        // What may be left out can be followed by the next.
        if (least_length(*child) == 0) {
          CodeSet inner;
          if (child->kind != Kind::repeat || !as_set(*child->children[0], inner)) return false;
          set.add(inner);
          continue;
        }
        return begins_with(*child, set);
      }
      return false;
    default: return false;
  }
}

}  // namespace

class Backtracker::Compiler {
 public:
  Compiler(Backtracker& program, const Tree& tree) : program_(program), keeps_groups_(tree.has_backrefs) {
    if (keeps_groups_) program_.registers_ = 2 * (tree.groups + 1);
    program_.limit_ = program_.keep_ = new_register();
    if (tree.has_keep) program_.keep_ = new_register();
    emit(*tree.root);
    add({Code::match});
    CodeSet first;
    if (least_length(*tree.root) > 0 && begins_with(*tree.root, first)) {
      program_.first_set_ = set_number(first);
      program_.has_first_set_ = true;
    }
  }

 private:
  uint32_t here() const { return static_cast<uint32_t>(program_.ops_.size()); }
  uint32_t new_register() { return program_.registers_++; }

  uint32_t add(const Op& op) {
    if (program_.ops_.size() >= kMostOps) throw Unsupported("a pattern of this size");
    program_.ops_.push_back(op);
    return here() - 1;
  }

  Op& at(uint32_t place) { return program_.ops_[place]; }

  uint32_t set_number(const CodeSet& set) {
    const auto found = std::find(known_.begin(), known_.end(), set);
    if (found != known_.end()) return static_cast<uint32_t>(found - known_.begin());
    known_.push_back(set);
    SetTest test;
    for (const Range& range : set.ranges()) {
      for (uint32_t point = range.first; point <= std::min(range.last, 0x7fu); ++point)
        test.ascii[point / 64] |= uint64_t{1} << point % 64;
      if (range.last > 0x7f) test.others.push_back({std::max(range.first, 0x80u), range.last});
    }
    program_.sets_.push_back(std::move(test));
    return static_cast<uint32_t>(known_.size() - 1);
  }

  void emit(const Node& node) {
    switch (node.kind) {
      case Kind::empty: return;
      case Kind::set: add({Code::set, 0, set_number(node.set)}); return;
      case Kind::list:
        for (const NodePtr& child : node.children) emit(*child);
        return;
      case Kind::alt: return emit_alt(node);
      case Kind::repeat: return emit_repeat(node);
      case Kind::group: return emit_group(node);
      case Kind::atomic: return emit_atomic(node);
      case Kind::anchor: return emit_anchor(node);
      case Kind::look: return node.behind ? emit_behind(node) : emit_ahead(node);
      case Kind::backref: add({Code::backref, 0, node.number, node.ignore_case}); return;
      case Kind::check: return emit_check(node);
      case Kind::absent: return emit_absent(node);
      case Kind::condition: return emit_condition(node);
      case Kind::literal:
      case Kind::call: return;
    }
  }

  void emit_alt(const Node& node) {
    std::vector<uint32_t> jumps;
    for (size_t number = 0; number + 1 < node.children.size(); ++number) {
      const uint32_t split = add({Code::split});
      at(split).a = here();
      emit(*node.children[number]);
      jumps.push_back(add({Code::jump}));
      at(split).b = here();
    }
    emit(*node.children.back());
    for (const uint32_t jump : jumps) at(jump).a = here();
  }

  void emit_group(const Node& node) {
    if (node.number == 0 || !keeps_groups_) return emit(*node.children[0]);
    add({Code::assign, 0, 2 * node.number});
    emit(*node.children[0]);
    add({Code::assign, 0, 2 * node.number + 1});
  }

  void emit_atomic(const Node& node) {
    const Node& body = *node.children[0];
    if (body.kind == Kind::repeat && emit_repeated_set(body, true)) return;
    const uint32_t height = new_register();
    add({Code::mark, 0, height});
    emit(body);
    add({Code::cut, 0, height});
  }

  // A repeated character takes one operation, and one place on the stack however often it is repeated.
  bool emit_repeated_set(const Node& node, bool atomic) {
    const Node& body = *node.children[0];
    CodeSet set;
    if (keeps_groups_ ? body.kind != Kind::set : !as_set(body, set)) return false;
    if (keeps_groups_) set = body.set;
    const uint8_t mode = atomic ? kPossessive : node.greedy ? kGreedy : kLazy;
    if (atomic && !node.greedy) {
      add({Code::repeat_set, kPossessive, set_number(set), node.lower, node.lower});
    } else {
      add({Code::repeat_set, mode, set_number(set), node.lower, node.upper});
    }
    return true;
  }

  void emit_repeat(const Node& node) {
    if (node.upper == 0 || operations(*node.children[0]) == 0) return;
    if (emit_repeated_set(node, false)) return;
    const Node& body = *node.children[0];
    const uint64_t length = operations(body);
    if (node.upper == kUnlimited && (node.lower <= 1 || length * node.lower <= kWrittenOut)) {
      for (uint32_t count = 0; count < node.lower; ++count) emit(body);
      emit_loop(node);
    } else if (node.upper != kUnlimited && node.greedy &&
               (node.upper == 1 || (length + 1) * node.upper <= kWrittenOut)) {
      for (uint32_t count = 0; count < node.lower; ++count) emit(body);
      std::vector<uint32_t> splits;
      for (uint32_t count = node.lower; count < node.upper; ++count) {
        splits.push_back(add({Code::split}));
        at(splits.back()).a = here();
        emit(body);
      }
      for (const uint32_t split : splits) at(split).b = here();
    } else if (node.upper == 1 && node.lower == 0) {
      const uint32_t split = add({Code::split});
      at(split).b = here();
      emit(body);
      at(split).a = here();
    } else {
      emit_counted(node);
    }
  }

  // The body, and a check that leaves the loop after a turn that matches nothing. The check's target is set
  // later.
  std::vector<uint32_t> emit_turn(const Node& body) {
    if (least_length(body) > 0) {
      emit(body);
      return {};
    }
    const uint32_t begin = new_register();
    add({Code::assign, 0, begin});
    emit(body);
    return {add({Code::empty_check, 0, begin})};
  }

  void emit_loop(const Node& node) {
    const uint32_t entry = node.greedy ? add({Code::split}) : add({Code::jump});
    const uint32_t body = here();
    const std::vector<uint32_t> checks = emit_turn(*node.children[0]);
    if (node.greedy) {
      add({Code::jump, 0, entry});
      at(entry).a = body;
      at(entry).b = here();
    } else {
      at(entry).a = here();
      const uint32_t again = add({Code::split});
      at(again).a = here();
      at(again).b = body;
    }
    for (const uint32_t check : checks) at(check).b = here();
  }

  void emit_counted(const Node& node) {
    const uint32_t count = new_register();
    add({Code::reset, 0, count});
    const bool optional = node.lower == 0;
    const uint32_t entry = optional ? add({Code::split}) : 0;
    const uint32_t body = here();
    const std::vector<uint32_t> checks = emit_turn(*node.children[0]);
    add({Code::turn, node.greedy ? kGreedy : kLazy, count, node.lower, node.upper, body});
    const uint32_t exit = here();
    if (optional) {
      at(entry).a = node.greedy ? body : exit;
      at(entry).b = node.greedy ? exit : body;
    }
    for (const uint32_t check : checks) at(check).b = exit;
  }

  void emit_anchor(const Node& node) {
    if (node.anchor == Anchor::keep) {
      add({Code::assign, 0, program_.keep_});
      return;
    }
    uint32_t set = node.of_words;
    if (node.anchor == Anchor::word || node.anchor == Anchor::not_word) {
      CodeSet words;
      find_property("(word)", words);
      set = set_number(node.ascii ? words.intersection({0, 0x7f}) : words);
    }
    add({Code::anchor, 0, static_cast<uint32_t>(node.anchor), set});
  }

  void emit_ahead(const Node& node) {
    const uint32_t height = new_register();
    const uint32_t place = new_register();
    add({Code::mark, 0, height});
    if (!node.negative) {
      add({Code::assign, 0, place});
      emit(*node.children[0]);
      add({Code::look_end, 0, height, place});
      return;
    }
    const uint32_t split = add({Code::split});
    at(split).a = here();
    emit(*node.children[0]);
    add({Code::not_end, 0, height});
    at(split).b = here();
  }

  void emit_behind(const Node& node) {
    const Node& body = *node.children[0];
    const uint32_t height = new_register();
    const uint32_t place = new_register();
    const uint32_t outer = new_register();
    add({Code::mark, 0, height});
    add({Code::assign, 0, place});
    uint32_t split = 0;
    if (node.negative) {
      split = add({Code::split});
      at(split).a = here();
    }
    // The peer limits what is read only if it can't count back to where the look begins.
    const bool is_variable = least_length(body) != greatest_length(body);
    if (is_variable) add({Code::limit, 0, outer});
    add({Code::step_back, 0, 0, least_length(body), greatest_length(body)});
    emit(body);
    add({Code::behind_end, 0, place});
    if (node.negative) {
      add({Code::not_end, 0, height});
      at(split).b = here();
    } else {
      if (is_variable) add({Code::unlimit, 0, outer});
      add({Code::look_end, 0, height, place});
    }
  }

  // One of several groups has matched.
  void emit_check(const Node& node) {
    std::vector<uint32_t> jumps;
    for (size_t number = 0; number + 1 < node.points.size(); ++number) {
      const uint32_t split = add({Code::split});
      at(split).a = here();
      add({Code::check, 0, node.points[number]});
      jumps.push_back(add({Code::jump}));
      at(split).b = here();
    }
    add({Code::check, 0, node.points.back()});
    for (const uint32_t jump : jumps) at(jump).a = here();
  }

  void emit_condition(const Node& node) {
    const uint32_t height = new_register();
    add({Code::mark, 0, height});
    const uint32_t split = add({Code::split});
    at(split).a = here();
    emit(*node.children[0]);
    add({Code::cut, 0, height});
    emit(*node.children[1]);
    const uint32_t jump = add({Code::jump});
    at(split).b = here();
    emit(*node.children[2]);
    at(jump).a = here();
  }

  // First where the absent begins, then from the same place what stands before it.
  void emit_absent(const Node& node) {
    if (node.children.empty()) {
      add({Code::whole_range});
      return;
    }
    const uint32_t place = new_register();
    const uint32_t height = new_register();
    const uint32_t outer = new_register();
    add({Code::assign, 0, place});
    add({Code::mark, 0, height});
    const uint32_t split = add({Code::split});
    at(split).a = here();
    emit(*node.children[0]);
    const uint32_t found = add({Code::found, 0, height});
    at(split).b = here();
    const uint32_t advance = add({Code::advance});
    add({Code::jump, 0, split});
    at(found).b = at(advance).a = here();
    add({Code::cut_range, 0, outer, place});
    if (node.children.size() < 2) return;
    emit(*node.children[1]);
    add({Code::unlimit, 0, outer});
  }

  Backtracker& program_;
  bool keeps_groups_;
  std::vector<CodeSet> known_;
};

Backtracker::Backtracker(const Tree& tree) { Compiler(*this, tree); }

size_t Backtracker::bytes() const {
  size_t sum = ops_.size() * sizeof(Op);
  for (const SetTest& set : sets_) sum += sizeof(set) + set.others.size() * sizeof(Range);
  return sum;
}

}  // namespace krill::regex
