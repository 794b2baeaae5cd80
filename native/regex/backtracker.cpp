#include "regex/backtracker.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "regex/characters.hpp"
#include "regex/segments.hpp"
#include "regex/unicode.hpp"

namespace krill::regex {
namespace {

constexpr size_t kMostFrames = size_t{1} << 20;
constexpr size_t kKeptFrames = size_t{1} << 14;

}  // namespace

// Where to go on when what was tried does not match, or what to undo before.
struct Backtracker::Frame {
  enum class Kind : uint32_t { way, undo, greedy, lazy, behind };
  Kind kind;
  uint32_t op;     // of an undo: its register
  uint32_t place;  // of an undo: the value
  uint32_t other;  // of a greedy set: its least place; of a lazy one and of a look behind: how many more
};

struct Backtracker::Stack {
  std::vector<Frame> frames;
  std::vector<uint32_t> registers;
};

bool Backtracker::SetTest::contains(uint32_t point) const {
  if (point < 0x80) return (ascii[point / 64] >> point % 64 & 1) != 0;
  const auto after = std::upper_bound(others.begin(), others.end(), point,
                                      [](uint32_t value, const Range& range) { return value < range.first; });
  return after != others.begin() && point <= std::prev(after)->last;
}

class Backtracker::Machine {
 public:
  Machine(const Backtracker& program, const uint8_t* text, size_t size, size_t from, Stack& stack,
          StepBudget& budget)
      : program_(program),
        text_(text),
        size_(size),
        from_(from),
        frames_(stack.frames),
        registers_(stack.registers),
        budget_(budget) {}

  bool match_at(size_t start, Match& match) {
    frames_.clear();
    registers_.assign(program_.registers_, kUnset);
    registers_[program_.limit_] = static_cast<uint32_t>(size_);
    place_ = start;
    op_ = 0;
    for (;;) {
      budget_.spend(1);
      const Op& op = program_.ops_[op_];
      if (op.code == Code::match) {
        const bool kept = program_.keep_ != program_.limit_ && registers_[program_.keep_] != kUnset;
        match = {kept ? registers_[program_.keep_] : start, place_};
        return true;
      }
      if (!run(op) && !go_back()) return false;
    }
  }

 private:
  static constexpr uint32_t kUnset = UINT32_MAX;

  size_t limit() const { return registers_[program_.limit_]; }

  void push(Frame::Kind kind, uint32_t op, size_t place, uint32_t other) {
    if (frames_.size() >= kMostFrames) throw std::runtime_error("the pattern backtracks too far");
    frames_.push_back({kind, op, static_cast<uint32_t>(place), other});
  }

  void assign(uint32_t number, uint32_t value) {
    push(Frame::Kind::undo, number, registers_[number], 0);
    registers_[number] = value;
  }

  // Takes a character of a set.
  bool take(uint32_t set) {
    if (place_ >= limit()) return false;
    const size_t length = length_at(text_, limit(), place_);
    if (!program_.sets_[set].contains(point_at(text_, place_, length))) return false;
    place_ += length;
    return true;
  }

  bool run(const Op& op) {
    switch (op.code) {
      case Code::set: return take(op.a) && ++op_;
      case Code::repeat_set: return repeat_set(op);
      case Code::jump: op_ = op.a; return true;
      case Code::split:
        push(Frame::Kind::way, op.b, place_, 0);
        op_ = op.a;
        return true;
      case Code::assign: assign(op.a, static_cast<uint32_t>(place_)); return ++op_;
      case Code::reset: assign(op.a, 0); return ++op_;
      case Code::turn: turn(op); return true;
      case Code::empty_check: op_ = registers_[op.a] == place_ ? op.b : op_ + 1; return true;
      case Code::mark: {
        const size_t height = frames_.size();
        assign(op.a, static_cast<uint32_t>(height));
        return ++op_;
      }
      case Code::cut: cut(op.a); return ++op_;
      case Code::look_end:
        place_ = registers_[op.b];
        cut(op.a);
        return ++op_;
      case Code::not_end: undo_to(registers_[op.a]); return false;
      case Code::limit:
        assign(op.a, registers_[program_.limit_]);
        assign(program_.limit_, static_cast<uint32_t>(place_));
        return ++op_;
      case Code::step_back: return step_back(op);
      case Code::behind_end: return place_ == registers_[op.a] && ++op_;
      case Code::unlimit: assign(program_.limit_, registers_[op.a]); return ++op_;
      case Code::anchor: return holds(op) && ++op_;
      case Code::backref: return (op.b ? repeat_group_in_any_case(op.a) : repeat_group(op.a)) && ++op_;
      case Code::advance:
        if (place_ >= limit()) {
          op_ = op.a;
          return true;
        }
        place_ += length_at(text_, limit(), place_);
        return ++op_;
      case Code::found: {
        const size_t height = registers_[op.a];
        place_ = frames_[height + 1].place;  // the first frame is what the mark itself has to undo
        undo_to(height);
        op_ = op.b;
        return true;
      }
      case Code::cut_range: {
        const size_t begin = registers_[op.b];
        assign(op.a, registers_[program_.limit_]);
        assign(program_.limit_, static_cast<uint32_t>(place_));
        place_ = begin;
        return ++op_;
      }
      case Code::whole_range: assign(program_.limit_, static_cast<uint32_t>(size_)); return ++op_;
      case Code::check: return has_matched(op.a) && ++op_;
      case Code::match: return true;
    }
    return false;
  }

  bool repeat_set(const Op& op) {
    uint32_t count = 0;
    while (count < op.b && take(op.a)) ++count;
    if (count < op.b) return false;
    const size_t least = place_;
    if (op.mode == kLazy) {
      if (op.c > op.b) push(Frame::Kind::lazy, op_, place_, op.c - op.b);
    } else {
      while ((op.c == kUnlimited || count < op.c) && take(op.a)) count += op.c != kUnlimited;
      budget_.spend((place_ - least) / 16);
      if (op.mode == kGreedy && place_ > least)
        push(Frame::Kind::greedy, op_ + 1, place_, static_cast<uint32_t>(least));
    }
    return ++op_;
  }

  void turn(const Op& op) {
    const uint32_t count = registers_[op.a] + 1;
    assign(op.a, std::min(count, kUnset - 1));
    if (op.c != kUnlimited && count >= op.c) {
      ++op_;
    } else if (count < op.b) {
      op_ = op.target;
    } else if (op.mode == kGreedy) {
      push(Frame::Kind::way, op_ + 1, place_, 0);
      op_ = op.target;
    } else {
      push(Frame::Kind::way, op.target, place_, 0);
      ++op_;
    }
  }

  // Forgets the ways back that were pushed since a mark, and keeps what has to be undone.
  void cut(uint32_t number) {
    const size_t height = registers_[number];
    budget_.spend((frames_.size() - height) / 16);
    const auto kept = std::remove_if(frames_.begin() + static_cast<ptrdiff_t>(height), frames_.end(),
                                     [](const Frame& frame) { return frame.kind != Frame::Kind::undo; });
    frames_.erase(kept, frames_.end());
  }

  void undo_to(size_t height) {
    while (frames_.size() > height) {
      const Frame& frame = frames_.back();
      if (frame.kind == Frame::Kind::undo) registers_[frame.op] = frame.place;
      frames_.pop_back();
    }
  }

  bool step_back(const Op& op) {
    for (uint32_t count = 0; count < op.b; ++count) {
      if (place_ == 0) return false;
      place_ = previous_place(text_, place_);
    }
    if (op.c > op.b)
      push(Frame::Kind::behind, op_ + 1, place_, op.c == kUnlimited ? kUnlimited : op.c - op.b);
    return ++op_;
  }

  bool is_word(size_t at, size_t end, uint32_t set) const {
    return program_.sets_[set].contains(point_at(text_, at, length_at(text_, end, at)));
  }

  bool holds(const Op& op) const {
    const bool at_end = place_ == size_;
    switch (static_cast<Anchor>(op.a)) {
      case Anchor::begin_text: return place_ == 0;
      case Anchor::end_text: return at_end;
      case Anchor::end_text_or_newline: return at_end || (place_ + 1 == size_ && text_[place_] == '\n');
      case Anchor::begin_line: return place_ == 0 || (!at_end && text_[place_ - 1] == '\n');
      case Anchor::end_line: return at_end || text_[place_] == '\n';
      case Anchor::begin_search: return place_ == from_;
      case Anchor::keep: return true;
      case Anchor::segment:
      case Anchor::not_segment: {
        uint64_t steps = 0;
        const bool begins =
            op.b ? begins_word(text_, size_, place_, steps) : begins_grapheme(text_, size_, place_, steps);
        budget_.spend(steps / 4);
        return begins == (static_cast<Anchor>(op.a) == Anchor::segment);
      }
      case Anchor::word:
      case Anchor::not_word: {
        // As there: where nothing may be read at the beginning, there is no character.
        if (place_ == 0 && limit() == 0) return static_cast<Anchor>(op.a) == Anchor::not_word;
        const bool left = place_ > 0 && is_word(previous_place(text_, place_), place_, op.b);
        const bool right = !at_end && is_word(place_, size_, op.b);
        return (left != right) == (static_cast<Anchor>(op.a) == Anchor::word);
      }
    }
    return false;
  }

  bool has_matched(uint32_t number) const {
    return registers_[2 * number] != kUnset && registers_[2 * number + 1] != kUnset;
  }

  bool repeat_group(uint32_t number) {
    const uint32_t begin = registers_[2 * number];
    const uint32_t end = registers_[2 * number + 1];
    if (!has_matched(number)) return false;
    if (begin > end) return true;  // within the group itself, which has begun anew
    const size_t length = end - begin;
    budget_.spend(length / 16);
    if (limit() < place_ || limit() - place_ < length) return false;
    if (std::memcmp(text_ + begin, text_ + place_, length) != 0) return false;
    place_ += length;
    return true;
  }

  // As there: as many bytes, of characters that are the same one by one.
  bool repeat_group_in_any_case(uint32_t number) {
    size_t at = registers_[2 * number];
    const size_t end = registers_[2 * number + 1];
    if (!has_matched(number)) return false;
    if (at >= end) return true;
    const size_t length = end - at;
    budget_.spend(length);
    if (limit() < place_ || limit() - place_ < length) return false;
    const size_t stop = place_ + length;
    size_t other = place_;
    while (at < end) {
      if (other >= stop) return false;
      const size_t size = length_at(text_, end, at);
      const size_t other_size = length_at(text_, stop, other);
      if (!CaseFolding::instance().are_same(point_at(text_, at, size), point_at(text_, other, other_size)))
        return false;
      at += size;
      other += other_size;
    }
    place_ = other;
    return true;
  }

  // The last way that is left; false if there is none.
  bool go_back() {
    while (!frames_.empty()) {
      const Frame frame = frames_.back();
      budget_.spend(1);
      switch (frame.kind) {
        case Frame::Kind::undo:
          registers_[frame.op] = frame.place;
          frames_.pop_back();
          continue;
        case Frame::Kind::way:
          frames_.pop_back();
          place_ = frame.place;
          op_ = frame.op;
          return true;
        case Frame::Kind::greedy:
          place_ = previous_place(text_, frame.place);
          if (place_ > frame.other) {
            frames_.back().place = static_cast<uint32_t>(place_);
          } else {
            place_ = frame.other;
            frames_.pop_back();
          }
          op_ = frame.op;
          return true;
        case Frame::Kind::lazy:
          place_ = frame.place;
          if (!take(program_.ops_[frame.op].a)) {
            frames_.pop_back();
            continue;
          }
          more(frame);
          op_ = frame.op + 1;
          return true;
        case Frame::Kind::behind:
          if (frame.place == 0) {
            frames_.pop_back();
            continue;
          }
          place_ = previous_place(text_, frame.place);
          more(frame);
          op_ = frame.op;
          return true;
      }
    }
    return false;
  }

  // One more character was taken by a frame that counts them.
  void more(const Frame& frame) {
    if (frame.other == 1) {
      frames_.pop_back();
    } else {
      frames_.back().place = static_cast<uint32_t>(place_);
      if (frame.other != kUnlimited) frames_.back().other = frame.other - 1;
    }
  }

  const Backtracker& program_;
  const uint8_t* text_;
  size_t size_;
  size_t from_;
  std::vector<Frame>& frames_;
  std::vector<uint32_t>& registers_;
  StepBudget& budget_;
  size_t place_ = 0;
  uint32_t op_ = 0;
};

bool Backtracker::find(const uint8_t* text, size_t size, size_t from, Match& match,
                       StepBudget& budget) const {
  thread_local Stack stack;
  bool found = false;
  Machine machine(*this, text, size, from, stack, budget);
  for (size_t at = from; at <= size && !found;) {
    const size_t length = at < size ? length_at(text, size, at) : 1;
    const bool can_begin =
        !has_first_set_ || (at < size && sets_[first_set_].contains(point_at(text, at, length)));
    found = can_begin && machine.match_at(at, match);
    at += length;
  }
  if (stack.frames.capacity() > kKeptFrames) stack.frames = {};
  return found;
}

}  // namespace krill::regex
