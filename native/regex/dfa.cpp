#include "regex/dfa.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace krill::regex {
namespace {

constexpr size_t kMostDfaStates = 4096;
constexpr size_t kMostEntries = 400'000;     // of a table
constexpr size_t kMostCompared = 20'000;     // entries of tables that are compared
constexpr uint64_t kMostWork = 100'000'000;  // places looked at while it is made, about a second

}  // namespace

class Dfa::Determiniser {
 public:
  explicit Determiniser(const Automaton& automaton)
      : automaton_(automaton), all_(automaton.symbols), visited_(automaton.states.size()) {
    find_contexts();
  }

  std::optional<Dfa> run() {
    state_of({{}, 0, false});  // the end
    std::vector<uint32_t> starts(all_.begin() + 1);
    for (size_t symbol = 0; symbol < starts.size(); ++symbol)
      starts[symbol] = state_of({{automaton_.start}, context_of_[symbol], false});
    Dfa dfa;
    dfa.symbols_ = all_;
    while ((size_t{1} << dfa.stride_bits_) < all_.end() + 1) ++dfa.stride_bits_;
    dfa.stride_ = size_t{1} << dfa.stride_bits_;
    for (size_t state = 0; state < states_.size(); ++state) {
      if (states_.size() > kMostDfaStates || states_.size() * dfa.stride_ > kMostEntries || work_ > kMostWork)
        return std::nullopt;
      const Key key = *states_[state];
      for (size_t symbol = 0; symbol < dfa.stride_; ++symbol)
        dfa.steps_.push_back(symbol <= all_.end() ? step(key, symbol) : 0);
    }
    finish(dfa, starts);
    return dfa;
  }

 private:
  struct Key {
    std::vector<uint32_t> places;
    uint32_t context;   // what stands before, as far as the pattern can tell
    bool just_matched;  // a match ended before the last character
    auto operator<=>(const Key&) const = default;
  };

  // Symbols that all assertions take for the same when they look back have one context.
  void find_contexts() {
    std::map<std::vector<bool>, uint32_t> contexts;
    for (size_t symbol = 0; symbol <= all_.begin(); ++symbol) {
      std::vector<bool> seen;
      for (const Assertion& assertion : automaton_.assertions) {
        if (!assertion.looks_back()) continue;
        looks_back_ = true;
        seen.push_back(assertion.symbols[symbol]);
        seen.push_back(symbol == all_.begin());
      }
      const auto found = contexts.emplace(std::move(seen), static_cast<uint32_t>(contexts.size()));
      context_of_.push_back(found.first->second);
      if (found.second) symbol_of_context_.push_back(symbol);
    }
  }

  uint32_t state_of(Key key) {
    const auto found = numbers_.emplace(std::move(key), static_cast<uint32_t>(states_.size()));
    if (found.second) states_.push_back(&found.first->first);
    return found.first->second;
  }

  // Where the pattern can stand before `symbol`, in order of preference, up to where it may end.
  bool close(const Key& key, size_t symbol, std::vector<uint32_t>& sets) {
    const size_t previous = symbol_of_context_[key.context];
    ++mark_;
    for (const uint32_t place : key.places) {
      stack_.assign(1, place);
      while (!stack_.empty()) {
        const uint32_t at = stack_.back();
        stack_.pop_back();
        ++work_;
        if (std::exchange(visited_[at], mark_) == mark_) continue;
        const AutomatonState& state = automaton_.states[at];
        switch (state.kind) {
          case AutomatonState::Kind::match: return true;
          case AutomatonState::Kind::set: sets.push_back(at); break;
          case AutomatonState::Kind::split:
            stack_.push_back(state.other);
            stack_.push_back(state.next);
            break;
          case AutomatonState::Kind::assertion:
            if (automaton_.assertions[state.assertion].holds(previous, symbol, all_))
              stack_.push_back(state.next);
            break;
        }
      }
    }
    return false;
  }

  uint32_t step(const Key& key, size_t symbol) {
    std::vector<uint32_t> sets;
    const bool matched = close(key, symbol, sets);
    Key next{{}, 0, false};
    ++mark_;
    for (const uint32_t set : sets) {
      const AutomatonState& state = automaton_.states[set];
      if (state.symbols[symbol] && std::exchange(visited_[state.next], mark_) != mark_)
        next.places.push_back(state.next);
    }
    if (next.places.empty() || symbol == all_.end()) return matched ? kMatch : 0;
    next.context = context_of_[symbol];
    next.just_matched = matched;
    return state_of(std::move(next)) << 1 | (matched ? kMatch : 0);
  }

  void finish(Dfa& dfa, const std::vector<uint32_t>& starts) {
    const auto stride = static_cast<uint32_t>(dfa.stride_);
    for (uint32_t& entry : dfa.steps_) entry = (entry >> 1) * stride << 1 | (entry & kMatch);
    dfa.looks_back_ = looks_back_;
    for (const uint32_t start : starts) {
      dfa.start_rows_.push_back(start * stride);
      for (size_t symbol = 0; symbol < stride; ++symbol)
        dfa.matches_empty_ |= (dfa.steps_[start * stride + symbol] & kMatch) != 0;
    }
    std::vector<bool> just_matched;
    std::vector<uint32_t> start_of;
    for (const Key* key : states_) {
      just_matched.push_back(key->just_matched);
      start_of.push_back(dfa.start_rows_[symbol_of_context_[key->context]]);
    }
    dfa.make_cuts(just_matched, start_of);
  }

  const Automaton& automaton_;
  const Symbols& all_;
  std::vector<uint32_t> context_of_;
  std::vector<size_t> symbol_of_context_;
  bool looks_back_ = false;
  std::map<Key, uint32_t> numbers_;
  std::vector<const Key*> states_;
  std::vector<uint64_t> visited_;
  uint64_t mark_ = 0;
  uint64_t work_ = 0;
  std::vector<uint32_t> stack_;
};

std::optional<Dfa> Dfa::build(const Automaton& automaton) { return Determiniser(automaton).run(); }

bool Dfa::has_sure_gaps() const {
  if (looks_back_ || matches_empty_) return false;
  for (size_t symbol = 0; symbol < symbols_.count(); ++symbol) {
    const size_t row = steps_[start_rows_[0] + symbol] >> 1;
    for (size_t next = 0; row != 0 && next <= symbols_.end(); ++next) {
      if ((steps_[row + next] & kMatch) == 0) return false;
    }
  }
  return true;
}

void Dfa::make_cuts(const std::vector<bool>& just_matched, const std::vector<uint32_t>& start_of) {
  const auto to_row = [](size_t row) { return static_cast<uint32_t>(row) << kCutFlags; };
  const size_t gap = has_sure_gaps() ? steps_.size() : 0;
  cuts_.resize(steps_.size() + (gap == 0 ? 0 : stride_));
  for (size_t at = 0; at < steps_.size(); ++at) {
    const size_t state = at / stride_;
    const size_t symbol = at % stride_;
    const size_t begun = steps_[start_of[state] + symbol] >> 1;  // where the next match is after the symbol
    const bool matched = (steps_[at] & kMatch) != 0;
    if ((steps_[at] >> 1) != 0) {
      cuts_[at] = to_row(steps_[at] >> 1);
    } else if (matched && symbol == symbols_.end()) {
      cuts_[at] = kCut;
    } else if (matched && (begun != 0 || gap != 0)) {
      cuts_[at] = to_row(begun != 0 ? begun : gap) | kCut;
    } else if (gap != 0 && state * stride_ == start_rows_[0] && symbol != symbols_.end()) {
      cuts_[at] = to_row(gap);
    } else {
      cuts_[at] = kSpecial | (!matched && just_matched[state] ? kOneBack : 0);
    }
  }
  for (size_t symbol = 0; gap != 0 && symbol < stride_; ++symbol) {
    const size_t begun = steps_[start_rows_[0] + symbol] >> 1;
    const bool ends = begun != 0 || symbol == symbols_.end();
    cuts_[gap + symbol] = ends ? to_row(begun) | kCut | kAfterGap : to_row(gap);
  }
  if (!matches_empty_) pairs_.build(symbols_, cuts_, stride_bits_);
}

Dfa Dfa::over_bytes(std::span<const uint16_t, 256> points) const {
  Dfa bytes = *this;
  bytes.symbols_ = symbols_.over_bytes(points);
  bytes.pairs_ = {};
  if (!matches_empty_) bytes.pairs_.build(bytes.symbols_, cuts_, stride_bits_);
  return bytes;
}

ByteSet Dfa::kept_together() const {
  const uint8_t most = symbols_.of_ascii('a');
  const ByteSet set = ByteSet::of(symbols_, most);
  // Either no match begins with one of them, or they all are one match.
  const auto begins_none = [&](uint32_t row) { return steps_[row + most] == 0; };
  if (std::ranges::all_of(start_rows_, begins_none)) return set;
  uint32_t row = looks_back_ ? start_rows_[symbols_.begin()] : start_rows_[0];
  for (std::vector<uint32_t> seen; std::ranges::find(seen, row) == seen.end();) {
    if (!seen.empty() && (cuts_[row + symbols_.end()] & (kCut | kSpecial)) != kCut) return {};
    if ((cuts_[row + most] & (kCut | kSpecial)) != 0) return {};
    seen.push_back(row);
    row = cuts_[row + most] >> kCutFlags;
  }
  return set;
}

std::vector<bool> Dfa::surely_matching() const {
  std::vector<bool> sure(steps_.size() / stride_, true);
  sure[0] = false;
  for (bool changed = true; std::exchange(changed, false);) {
    for (size_t state = 1; state < sure.size(); ++state) {
      for (size_t symbol = 0; sure[state] && symbol <= symbols_.end(); ++symbol) {
        const uint32_t step = steps_[state * stride_ + symbol];
        if ((step & kMatch) != 0 || sure[(step >> 1) / stride_]) continue;
        sure[state] = false;
        changed = true;
      }
    }
  }
  return sure;
}

// Both read the same symbols. Whatever they have read, a match that may be the last one ends for both or for
// none.
bool Dfa::matches_as(const Dfa& other) const {
  Symbols all;
  std::vector<std::vector<uint8_t>> own;
  if (looks_back_ || other.looks_back_ || std::max(steps_.size(), other.steps_.size()) > kMostCompared ||
      !all.join({&symbols_, &other.symbols_}, own))
    return false;
  own[0].push_back(static_cast<uint8_t>(symbols_.end()));
  own[1].push_back(static_cast<uint8_t>(other.symbols_.end()));
  const auto ends = [](const Dfa& dfa, const std::vector<bool>& sure, uint32_t step) {
    return (step & kMatch) != 0 && !sure[(step >> 1) / dfa.stride_];
  };
  const std::vector<bool> sure = surely_matching(), other_sure = other.surely_matching();
  using Rows = std::pair<size_t, size_t>;
  std::set<Rows> seen{{start_rows_[0], other.start_rows_[0]}};
  for (std::vector<Rows> open(seen.begin(), seen.end()); !open.empty();) {
    const Rows rows = open.back();
    open.pop_back();
    for (size_t symbol = 0; symbol <= all.end(); ++symbol) {
      const uint32_t first = steps_[rows.first + own[0][symbol]];
      const uint32_t second = other.steps_[rows.second + own[1][symbol]];
      if (ends(*this, sure, first) != ends(other, other_sure, second)) return false;
      const Rows next{first >> 1, second >> 1};
      if (seen.insert(next).second) open.push_back(next);
    }
  }
  return true;
}

bool Dfa::match_at(const uint8_t* text, size_t size, size_t at, size_t& end, size_t& read) const {
  bool found = false;
  size_t row = start_row(text, at);
  for (;;) {
    size_t length = 0;
    const size_t symbol = at < size ? symbols_.at(text, size, at, length) : symbols_.end();
    const uint32_t step = steps_[row + symbol];
    if (step & kMatch) {
      found = true;
      end = at;
    }
    row = step >> 1;
    if (row == 0) break;
    at += length;
  }
  read = at;
  return found;
}

bool Dfa::find(const uint8_t* text, size_t size, size_t from, Match& match, StepBudget& budget) const {
  for (size_t at = from; at <= size;) {
    size_t length = 1;
    const size_t symbol = at < size ? symbols_.at(text, size, at, length) : symbols_.end();
    if (steps_[start_row(text, at) + symbol] != 0) {
      size_t end = 0;
      size_t read = 0;
      if (match_at(text, size, at, end, read)) {
        budget.spend(read - end);
        match = {at, end};
        return true;
      }
      budget.spend(read - at);
    }
    at += length;
  }
  return false;
}

size_t Dfa::split(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) const {
  if (from >= size || capacity == 0) return 0;
  const uint32_t* const cuts = cuts_.data();
  StepBudget budget(16 * uint64_t{size - from} + 1'000'000);
  size_t count = 0;
  size_t at = from;
  size_t before = from;
  uint32_t row = start_row(text, from);
  const auto write_pair = [&](size_t place, uint32_t, uint32_t entry) {
    if (count + 2 > capacity) return false;
    ends[count] = static_cast<uint32_t>(place) | (entry & AsciiPairs::kFirstAfterGap) << 29;
    count += entry & AsciiPairs::kFirstCut;
    ends[count] = static_cast<uint32_t>(place + 1) | (entry & AsciiPairs::kSecondAfterGap) << 28;
    count += (entry & AsciiPairs::kSecondCut) >> 1;
    return true;
  };
  for (;;) {
    uint32_t entry = 0;
    while (at < size) {
      if (!pairs_.empty()) {
        const size_t begin = at;
        pairs_.run(text, size, at, row, write_pair);
        if (at > begin) before = at - 1;
        if (count == capacity) return count;
        if (at == size) break;
      }
      do {
        size_t length = 0;
        entry = cuts[row + symbols_.at(text, size, at, length)];
        if (entry & kSpecial) break;
        ends[count] = static_cast<uint32_t>(at) | (entry & kAfterGap) << 29;
        count += entry & kCut;
        if (count == capacity) return count;
        row = entry >> kCutFlags;
        before = at;
        at += length;
      } while (at < size && text[at] >= 0x80);
      if (entry & kSpecial) break;
    }
    if (at == size) {
      entry = cuts[row + symbols_.end()];
      if (entry & kCut) {
        ends[count++] = static_cast<uint32_t>(size) | (entry & kAfterGap) << 29;
        return count;
      }
    }
    if (entry & kOneBack) {
      budget.spend(at - before);
      at = before;
    } else {
      const size_t start = count == 0 ? from : ends[count - 1] & ~kGapFlag;
      Match match{};
      if (!find(text, size, start, match, budget)) {
        ends[count++] = static_cast<uint32_t>(size) | kGapFlag;
        return count;
      }
      if (match.begin > start) {
        ends[count++] = static_cast<uint32_t>(match.begin) | kGapFlag;
        if (count == capacity) return count;
      }
      at = match.end;
    }
    ends[count++] = static_cast<uint32_t>(at);
    if (count == capacity || at == size) return count;
    before = at;
    row = start_row(text, at);
  }
}

}  // namespace krill::regex
