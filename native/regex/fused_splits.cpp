#include "regex/fused_splits.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace krill::regex {
namespace {

constexpr size_t kMostProducts = 3000;
constexpr size_t kMostProductEntries = 200'000;
constexpr uint32_t kSlow = UINT32_MAX;  // in `begins_`: no piece begins with this symbol at once
constexpr size_t kChunk = 128;
// Pieces that are left to the automata where the next cuts are not known at once, and where that is so again
// and again, as among characters beyond ASCII.
constexpr size_t kFewPieces = 4, kManyPieces = 64;

StepBudget budget_of(size_t size) { return StepBudget(16 * uint64_t{size} + 1'000'000); }

}  // namespace

class FusedSplits::Builder {
 public:
  explicit Builder(const std::vector<const Dfa*>& levels)
      : levels_(levels), last_(*levels.back()), fused_(*levels.back()) {}

  std::optional<FusedSplits> run() {
    for (const Dfa* level : levels_) {
      if (level->matches_empty_) return std::nullopt;
    }
    if (last_.looks_back_ || !fused_.symbols_.join(parts(), part_symbols_)) return std::nullopt;
    for (size_t level = 0; level < levels_.size(); ++level)
      part_symbols_[level].push_back(static_cast<uint8_t>(levels_[level]->symbols_.end()));
    fused_.last_symbols_ = part_symbols_.back();
    while ((size_t{1} << fused_.stride_bits_) < fused_.symbols_.end() + 1) ++fused_.stride_bits_;
    fused_.stride_ = size_t{1} << fused_.stride_bits_;
    if (!make_outer() || !make_products()) return std::nullopt;
    fused_.pairs_.build(fused_.symbols_, fused_.cuts_, fused_.stride_bits_);
    fused_.local_ =
        LocalCuts::build({fused_.symbols_, fused_.outer_, fused_.stride_, last_.steps_, last_.stride_,
                          last_.start_rows_[0], last_.surely_matching(), fused_.last_symbols_});
    return std::move(fused_);
  }

 private:
  using Rows = std::vector<uint32_t>;

  std::vector<const Symbols*> parts() const {
    std::vector<const Symbols*> all;
    for (const Dfa* level : levels_) all.push_back(&level->symbols_);
    return all;
  }

  // Where a level begins a text.
  static uint32_t start_of(const Dfa& level) { return level.start_rows_[level.symbols_.begin()]; }
  uint32_t scaled(size_t state) const { return static_cast<uint32_t>(state * fused_.stride_); }

  // One symbol for all levels but the last; false if one of them can't say at once where it cuts.
  bool step_outer(Rows& rows, size_t symbol, bool& cut) const {
    const bool is_end = symbol == fused_.symbols_.end();
    cut = false;
    for (size_t level = 0; level + 1 < levels_.size(); ++level) {
      const Dfa& dfa = *levels_[level];
      const size_t own = part_symbols_[level][symbol];
      uint32_t entry = dfa.cuts_[rows[level] + (cut ? dfa.symbols_.end() : own)];
      if (entry & kSpecial) return false;
      if (cut && !is_end) entry = dfa.cuts_[start_of(dfa) + own];
      if (entry & kSpecial) return false;
      cut |= (entry & kCut) != 0;
      rows[level] = entry >> kCutFlags;
    }
    return true;
  }

  bool make_outer() {
    std::map<Rows, uint32_t> numbers;
    std::vector<Rows> states;
    const auto state_of = [&](const Rows& rows) {
      const auto found = numbers.emplace(rows, static_cast<uint32_t>(states.size()));
      if (found.second) states.push_back(rows);
      return found.first->second;
    };
    Rows start;
    for (size_t level = 0; level + 1 < levels_.size(); ++level) start.push_back(start_of(*levels_[level]));
    state_of(start);
    for (size_t state = 0; state < states.size(); ++state) {
      if (states.size() > kMostProducts || states.size() * fused_.stride_ > kMostProductEntries) return false;
      for (size_t symbol = 0; symbol < fused_.stride_; ++symbol) {
        // No text ends before it has begun; beyond the end there is no symbol.
        if (symbol > fused_.symbols_.end() || (state == 0 && symbol == fused_.symbols_.end())) {
          fused_.outer_.push_back(0);
          continue;
        }
        Rows rows = states[state];
        bool cut = false;
        if (!step_outer(rows, symbol, cut)) return false;
        const uint32_t next = symbol == fused_.symbols_.end() ? 0 : state_of(rows);
        if (next == 0 && symbol != fused_.symbols_.end()) return false;
        fused_.outer_.push_back(scaled(next) << 1 | (cut ? 1 : 0));
      }
    }
    return true;
  }

  uint32_t product_of(uint32_t outer, uint32_t last) {
    const auto found = numbers_.emplace(std::pair(outer, last), static_cast<uint32_t>(products_.size()));
    if (found.second) products_.emplace_back(outer, last);
    return scaled(found.first->second);
  }

  uint32_t begin_with(uint32_t outer, size_t symbol) {
    const uint32_t entry = last_.cuts_[last_.start_rows_[0] + part_symbols_.back()[symbol]];
    if (entry & kSpecial) return kSlow;
    return product_of(fused_.outer_[outer + symbol] >> 1, entry >> kCutFlags);
  }

  uint32_t step_product(uint32_t outer, uint32_t last, size_t symbol) {
    const uint32_t step = fused_.outer_[outer + symbol];
    if ((step & 1) == 0) {
      const uint32_t entry = last_.cuts_[last + part_symbols_.back()[symbol]];
      if (entry & kSpecial) return entry & (kSpecial | kOneBack);
      return product_of(step >> 1, entry >> kCutFlags) << kCutFlags | (entry & kCut);
    }
    if (last_.cuts_[last + last_.symbols_.end()] & kSpecial) return kSpecial;
    if (symbol == fused_.symbols_.end()) return kCut;
    const uint32_t begun = begin_with(outer, symbol);
    return begun == kSlow ? kSpecial : begun << kCutFlags | kCut;
  }

  bool make_products() {
    const size_t outers = fused_.outer_.size() / fused_.stride_;
    for (size_t outer = 0; outer < outers; ++outer) {
      for (size_t symbol = 0; symbol < fused_.stride_; ++symbol) {
        fused_.begins_.push_back(symbol < fused_.symbols_.end() ? begin_with(scaled(outer), symbol) : kSlow);
      }
    }
    for (size_t state = 0; state < products_.size(); ++state) {
      if (products_.size() > kMostProducts || products_.size() * fused_.stride_ > kMostProductEntries)
        return false;
      const auto [outer, last] = products_[state];
      for (size_t symbol = 0; symbol < fused_.stride_; ++symbol)
        fused_.cuts_.push_back(symbol <= fused_.symbols_.end() ? step_product(outer, last, symbol)
                                                               : kSpecial);
      fused_.outer_of_.push_back(outer);
    }
    return true;
  }

  const std::vector<const Dfa*>& levels_;
  const Dfa& last_;
  FusedSplits fused_;
  std::vector<std::vector<uint8_t>> part_symbols_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> numbers_;
  std::vector<std::pair<uint32_t, uint32_t>> products_;
};

std::optional<FusedSplits> FusedSplits::build(const std::vector<const Dfa*>& levels) {
  return Builder(levels).run();
}

// Whether the last automaton matches at `begin`, and where the match ends; the outer ones say where its text
// does.
bool FusedSplits::last_matches(const uint8_t* text, size_t size, Place begin, Place& end,
                               StepBudget& budget) const {
  bool found = false;
  size_t row = last_.start_rows_[0];
  Place place = begin;
  for (;;) {
    size_t length = 0;
    const size_t symbol = symbol_at(text, size, place.at, length);
    const uint32_t step = outer_[place.outer + symbol];
    const bool is_end = place.at > begin.at && (step & 1) != 0;
    const uint32_t matched = last_.steps_[row + (is_end ? last_.symbols_.end() : last_symbols_[symbol])];
    if (matched & Dfa::kMatch) {
      found = true;
      end = place;
    }
    row = matched >> 1;
    if (row == 0 || place.at == size) break;
    place = {place.at + length, step >> 1};
  }
  budget.spend(place.at - (found ? end.at : begin.at));
  return found;
}

size_t FusedSplits::find_cuts(const uint8_t* text, size_t size, Place begin, Place* cuts,
                              StepBudget& budget) const {
  for (Place place = begin;;) {
    if (last_matches(text, size, place, cuts[1], budget)) {
      if (place.at == begin.at) {
        cuts[0] = cuts[1];
        return 1;
      }
      cuts[0] = place;
      return 2;
    }
    size_t length = 0;
    const size_t symbol = symbol_at(text, size, place.at, length);
    place = {place.at + length, outer_[place.outer + symbol] >> 1};
    const size_t next = symbol_at(text, size, place.at, length);
    if (place.at == size || (outer_[place.outer + next] & 1) != 0) {
      cuts[0] = place;
      return 1;
    }
  }
}

size_t FusedSplits::split(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
                          uint32_t& state) const {
  if (!local_) return split_plainly(text, size, from, ends, capacity, state);
  size_t count = 0, budgeted = 0;
  StepBudget budget = budget_of(size - from);
  while (from < size && count < capacity) {
    bool is_hard = false;
    count += local_->find(text, size, from, ends + count, capacity - count, state, is_hard);
    if (count > 0) from = ends[count - 1];
    if (from == size || count == capacity) break;
    if (count - budgeted >= kChunk) {
      budget = budget_of(size - from);
      budgeted = count;
    }
    count += split_by_states(text, size, from, ends + count,
                             std::min(capacity - count, is_hard ? kManyPieces : kFewPieces), state, budget);
    from = ends[count - 1];
    if (capacity - count < LocalCuts::kRoom) break;
  }
  return count;
}

size_t FusedSplits::split_plainly(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                                  size_t capacity, uint32_t& state) const {
  StepBudget budget = budget_of(size - from);
  return split_by_states(text, size, from, ends, capacity, state, budget);
}

size_t FusedSplits::split_by_states(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                                    size_t capacity, uint32_t& state, StepBudget& budget) const {
  if (from >= size || capacity == 0) return 0;
  const uint32_t* const table = cuts_.data();
  capacity = std::min(capacity, kChunk);
  uint32_t rows[kChunk];    // of the product at or one character before each cut
  uint32_t places[kChunk];  // where
  size_t count = 0;
  Place begin{from, from == 0 ? 0 : state};  // of the piece, if the automaton is to begin it anew
  size_t at = from;
  size_t last_place = from;  // of the last step, with the row before it
  uint32_t last_row = 0;
  uint32_t row = 0;
  const auto write_pair = [&](size_t place, uint32_t before, uint32_t entry) {
    if (count + 2 > capacity) return false;
    ends[count] = static_cast<uint32_t>(place);
    rows[count] = before;
    places[count] = static_cast<uint32_t>(place);
    count += entry & AsciiPairs::kFirstCut;
    ends[count] = static_cast<uint32_t>(place + 1);
    rows[count] = before;
    places[count] = static_cast<uint32_t>(place);
    count += (entry & AsciiPairs::kSecondCut) >> 1;
    last_place = place;
    last_row = before;
    return true;
  };
  for (;;) {
    size_t length = 0;
    uint32_t entry = kSpecial;
    size_t before = begin.at;
    if (const uint32_t begun = begins_[begin.outer + symbols_.at(text, size, begin.at, length)];
        begun != kSlow) {
      at = begin.at + length;
      row = begun;
      entry = 0;
      while (at < size) {
        if (!pairs_.empty()) {
          const size_t begun_at = at;
          pairs_.run(text, size, at, row, write_pair);
          if (at > begun_at) before = at - 1;
          if (count == capacity || at == size) break;
        }
        do {
          entry = table[row + symbols_.at(text, size, at, length)];
          if (entry & kSpecial) break;
          ends[count] = static_cast<uint32_t>(at);
          rows[count] = row;
          places[count] = static_cast<uint32_t>(at);
          count += entry & kCut;
          before = last_place = at;
          last_row = row;
          row = entry >> kCutFlags;
          at += length;
        } while (count < capacity && at < size && text[at] >= 0x80);
        if (count == capacity || (entry & kSpecial)) break;
      }
      if (count == capacity) {
        state = place_at(text, ends[count - 1], places[count - 1], rows[count - 1]).outer;
        return count;
      }
      if (at == size) entry = table[row + symbols_.end()];
      if (entry & kCut) {
        ends[count++] = static_cast<uint32_t>(size);
        return count;
      }
      // Where the last piece begins, and the state of the outer automata there.
      if (count > 0 && ends[count - 1] > begin.at)
        begin = place_at(text, ends[count - 1], places[count - 1], rows[count - 1]);
    }
    Place cuts[2];
    size_t found = 1;
    if ((entry & kOneBack) != 0 && before > begin.at) {
      cuts[0] = place_at(text, before, last_place, last_row);
    } else {
      found = find_cuts(text, size, begin, cuts, budget);
    }
    for (size_t number = 0; number < found; ++number) {
      ends[count++] = static_cast<uint32_t>(cuts[number].at);
      begin = cuts[number];
      if (count == capacity || begin.at == size) {
        state = begin.outer;
        return count;
      }
    }
  }
}

}  // namespace krill::regex
