#include "regex/local_cuts.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "processor.hpp"
#include "text/scanner_block.hpp"

namespace krill::regex {
namespace {

constexpr size_t kMostLocalStates = 2000, kMostSets = 256;
constexpr unsigned kBlock = 64;
// Characters before a place that are looked at: before all places, and where these are not enough.
constexpr size_t kRounds = 3, kMostRounds = 12;

using Mask = uint64_t;

constexpr Mask below(unsigned place) { return place < 64 ? (Mask{1} << place) - 1 : ~Mask{0}; }

}  // namespace

class LocalCuts::Builder {
 public:
  explicit Builder(const SplitTables& tables) : tables_(tables) {}

  std::optional<LocalCuts> run() {
    if (!number_symbols() || !find_states()) return std::nullopt;
    find_sets();
    join_sets();
    if (!number_classes()) return std::nullopt;
    write_outcomes();
    if (!write_kinds()) return std::nullopt;
    return std::move(cuts_);
  }

 private:
  // What is known of the piece: that it begins here; that a match has ended since it began, or will; that
  // what began with the last character need not become a match, and before it nothing did; or less.
  enum class Known : uint8_t { begins, matches, may_begin, nothing };

  struct State {
    uint32_t outer;
    uint32_t last;
    Known known;
    auto operator<=>(const State&) const = default;
  };
  using States = std::vector<State>;  // in order, each once

  struct Step {
    bool outer_cut;
    bool matched;  // a match ends before the symbol
    uint32_t last;
    uint32_t outer;
  };

  Step step(uint32_t outer, uint32_t last, size_t symbol) const {
    const uint32_t next = tables_.outer[outer + symbol];
    const bool cut = (next & 1) != 0;
    const uint8_t own = cut ? tables_.last_symbols.back() : tables_.last_symbols[symbol];
    const uint32_t matched = tables_.steps[last + own];
    return {cut, (matched & 1) != 0, matched >> 1, next >> 1};
  }
  Step step(const State& state, size_t symbol) const { return step(state.outer, state.last, symbol); }
  bool sure(uint32_t last) const { return tables_.sure[last / tables_.stride]; }

  // ASCII symbols that nothing tells apart are one.
  bool number_symbols() {
    std::map<std::vector<uint32_t>, uint8_t> numbers;
    for (uint8_t byte = 0; byte < 128; ++byte) {
      const size_t symbol = tables_.symbols.of_ascii(byte);
      std::vector<uint32_t> column;
      for (size_t row = 0; row < tables_.outer.size(); row += tables_.outer_stride)
        column.push_back(tables_.outer[row + symbol]);
      for (size_t row = 0; row < tables_.steps.size(); row += tables_.stride)
        column.push_back(tables_.steps[row + tables_.last_symbols[symbol]]);
      const auto found = numbers.emplace(std::move(column), static_cast<uint8_t>(examples_.size()));
      if (found.second) examples_.push_back(symbol);
      cuts_.symbols_[byte] = found.first->second;
    }
    if (examples_.size() < 2 || examples_.size() > cuts_.kinds_.size()) return false;
    cuts_.symbol_bits_ = std::bit_width(examples_.size() - 1);
    return true;
  }

  void add_begin(uint32_t before, size_t symbol, States& states) const {
    const uint32_t last = tables_.steps[tables_.start + tables_.last_symbols[symbol]] >> 1;
    states.push_back(
        {tables_.outer[before + symbol] >> 1, last, sure(last) ? Known::matches : Known::may_begin});
  }

  // The states in which the splits may be after a symbol.
  void add_next(const State& state, size_t symbol, States& states) const {
    if (state.known == Known::begins) return add_begin(state.outer, symbol, states);
    const Step next = step(state, symbol);
    const bool goes_on = !next.outer_cut && next.last != 0;
    const bool is_sure = goes_on && sure(next.last);
    const bool matches = state.known == Known::matches;
    if (goes_on) {
      const bool known = matches || next.matched || is_sure;
      states.push_back({next.outer, next.last, known ? Known::matches : Known::nothing});
    }
    if (next.outer_cut || !matches || (next.matched && !is_sure)) add_begin(state.outer, symbol, states);
  }

  static void sort(States& states) {
    std::sort(states.begin(), states.end());
    states.erase(std::unique(states.begin(), states.end()), states.end());
  }

  States next_states(const States& from, size_t symbol) const {
    States states;
    for (const State& state : from) add_next(state, symbol, states);
    sort(states);
    return states;
  }

  // All states in which the splits may be.
  bool find_states() {
    std::set<State> seen{{0, tables_.start, Known::begins}};
    for (States open(seen.begin(), seen.end()); !open.empty();) {
      const State state = open.back();
      open.pop_back();
      if (seen.size() > kMostLocalStates) return false;
      States next;
      for (size_t symbol = 0; symbol < tables_.symbols.count(); ++symbol) add_next(state, symbol, next);
      for (const State& one : next) {
        if (seen.insert(one).second) open.push_back(one);
      }
    }
    all_.assign(seen.begin(), seen.end());
    return true;
  }

  size_t set_of(States states) {
    const auto found = numbers_.find(states);
    if (found != numbers_.end()) return found->second;
    // Any set may stand for one that it includes.
    if (sets_.size() == kMostSets) return 0;
    numbers_.emplace(states, sets_.size());
    sets_.push_back(std::move(states));
    return sets_.size() - 1;
  }

  // Sets of states to which symbols lead from all states, and from those with which a piece begins.
  void find_sets() {
    States begins;
    for (const State& state : all_) begins.push_back({state.outer, tables_.start, Known::begins});
    sort(begins);
    set_of(all_);
    set_of(std::move(begins));
    for (size_t set = 0; set < sets_.size(); ++set) {
      std::vector<size_t> next;
      for (const size_t symbol : examples_) next.push_back(set_of(next_states(sets_[set], symbol)));
      next_.push_back(std::move(next));
    }
  }

  uint32_t outer_of(const States& states) const {
    const auto other = [&](const State& state) { return state.outer != states.front().outer; };
    return states.empty() || std::ranges::any_of(states, other) ? kManyRows : states.front().outer;
  }

  // Sets that do the same whatever comes are one class.
  void join_sets() {
    std::vector<std::vector<uint32_t>> rows;
    for (const States& states : sets_) {
      std::vector<uint32_t> row{outer_of(states)};
      for (size_t symbol = 0; symbol < examples_.size(); ++symbol) {
        for (size_t next = 0; next < examples_.size(); ++next) {
          row.push_back(static_cast<uint32_t>(outcome_of(states, symbol, next, false)));
          row.push_back(static_cast<uint32_t>(outcome_of(states, symbol, next, true)));
        }
      }
      rows.push_back(std::move(row));
    }
    joined_.assign(sets_.size(), 0);
    for (size_t classes = 0;;) {
      std::map<std::vector<uint32_t>, uint32_t> known;
      std::vector<uint32_t> joined;
      for (const std::vector<uint32_t>& row : rows)
        joined.push_back(known.emplace(row, static_cast<uint32_t>(known.size())).first->second);
      joined_ = std::move(joined);
      if (known.size() == std::exchange(classes, known.size())) return;
      for (size_t set = 0; set < sets_.size(); ++set) {
        rows[set].assign(1, joined_[set]);
        for (const size_t next : next_[set]) rows[set].push_back(joined_[next]);
      }
    }
  }

  // Numbers as many classes as there is room for. What all states lead to is a class for each symbol: it
  // stands for those that get no number.
  bool number_classes() {
    const size_t most = kEntries >> cuts_.symbol_bits_;
    std::map<uint32_t, size_t> numbers;  // by what `joined_` has
    const auto number = [&](size_t set) {
      if (numbers.size() < most && numbers.emplace(joined_[set], members_.size()).second)
        members_.push_back(set);
      const auto found = numbers.find(joined_[set]);
      return found == numbers.end() ? most : found->second;
    };
    number(0);
    cuts_.begin_ = class_at(number(1) << cuts_.symbol_bits_);
    for (const size_t next : next_[0]) {
      if (number(next) == most) return false;
    }
    for (size_t one = 0; one < members_.size(); ++one) {
      for (size_t symbol = 0; symbol < examples_.size(); ++symbol) {
        size_t next = number(next_[members_[one]][symbol]);
        if (next == most) next = number(next_[0][symbol]);
        cuts_.classes_[one << cuts_.symbol_bits_ | symbol] = class_at(next << cuts_.symbol_bits_);
      }
    }
    return true;
  }

  // Of a match that may end before the symbol that was read, by what is next.
  Outcome decided_by(uint32_t outer, uint32_t last, size_t next) const {
    const Step step = this->step(outer, last, next);
    if (step.matched) return Outcome::none;
    if (step.outer_cut || step.last == 0) return Outcome::cut;
    return sure(step.last) ? Outcome::none : Outcome::open;
  }

  static Outcome both(Outcome first, Outcome second) {
    if (first == Outcome::impossible || first == second) return second;
    return second == Outcome::impossible ? first : Outcome::open;
  }

  // The same where the symbol is repeated any number of times before what is next.
  Outcome decided_behind(uint32_t outer, uint32_t last, size_t symbol, size_t next) const {
    Outcome outcome = Outcome::impossible;
    for (std::set<std::pair<uint32_t, uint32_t>> seen; seen.emplace(outer, last).second;) {
      const Outcome again = decided_by(outer, last, symbol);
      if (again != Outcome::open) return both(outcome, again);
      const Step step = this->step(outer, last, symbol);
      outer = step.outer;
      last = step.last;
      outcome = both(outcome, decided_by(outer, last, next));
    }
    return outcome;
  }

  // Whether a match begins with a symbol where none has begun before it.
  Outcome begun_by(uint32_t outer, size_t symbol, size_t next) const {
    const uint32_t last = tables_.steps[tables_.start + tables_.last_symbols[symbol]] >> 1;
    if (last == 0) return Outcome::none;
    if (sure(last)) return Outcome::cut;
    const Step step = this->step(tables_.outer[outer + symbol] >> 1, last, next);
    if (step.matched) return Outcome::cut;
    if (step.outer_cut || step.last == 0) return Outcome::none;
    return sure(step.last) ? Outcome::cut : Outcome::open;
  }

  // Whether there is a cut before a symbol.
  Outcome outcome_in(const State& state, size_t symbol, size_t next, bool is_run) const {
    if (state.known == Known::begins) return Outcome::impossible;
    const Step step = this->step(state, symbol);
    if (step.outer_cut) return Outcome::cut;
    if (state.known == Known::nothing) return Outcome::open;
    const bool matches = state.known == Known::matches;
    if (step.last == 0) {
      if (step.matched) return Outcome::cut;
      return matches ? Outcome::impossible : begun_by(state.outer, symbol, is_run ? symbol : next);
    }
    if (sure(step.last)) return Outcome::none;
    const Outcome outcome = is_run ? decided_behind(step.outer, step.last, symbol, next)
                                   : decided_by(step.outer, step.last, next);
    if (step.matched) return outcome;
    // Where it comes to nothing, a match has ended earlier, and what begins there has its own state.
    if (matches) return outcome == Outcome::cut ? Outcome::impossible : Outcome::none;
    return outcome == Outcome::none ? Outcome::none : Outcome::open;
  }

  Outcome outcome_of(const States& states, size_t symbol, size_t next, bool is_run) const {
    Outcome outcome = Outcome::impossible;
    for (const State& state : states)
      outcome = both(outcome, outcome_in(state, examples_[symbol], examples_[next], is_run));
    return outcome == Outcome::impossible ? Outcome::open : outcome;
  }

  void write_outcomes() {
    cuts_.outer_of_.fill(kManyRows);
    cuts_.runs_.assign(kEntries << cuts_.symbol_bits_, Outcome::open);
    outcomes_.assign(examples_.size(), std::vector<Outcome>(kEntries, Outcome::open));
    for (size_t one = 0; one < members_.size(); ++one) {
      const States& states = sets_[members_[one]];
      const size_t entries = one << cuts_.symbol_bits_;
      cuts_.outer_of_[class_at(entries)] = outer_of(states);
      for (size_t symbol = 0; symbol < examples_.size(); ++symbol) {
        for (size_t next = 0; next < examples_.size(); ++next) {
          const size_t entry = entries | symbol;
          outcomes_[next][entry] = outcome_of(states, symbol, next, false);
          cuts_.runs_[entry << cuts_.symbol_bits_ | next] = outcome_of(states, symbol, next, true);
        }
      }
    }
  }

  // Next symbols that everything does the same with are of one kind.
  bool write_kinds() {
    std::map<std::vector<Outcome>, unsigned> kinds;
    for (size_t next = 0; next < examples_.size(); ++next) {
      const std::vector<Outcome>& outcomes = outcomes_[next];
      const unsigned kind = kinds.emplace(outcomes, static_cast<unsigned>(kinds.size())).first->second;
      if (kind >= 8) return false;
      cuts_.kinds_[next] = static_cast<uint8_t>(1u << kind);
      for (size_t entry = 0; entry < kEntries; ++entry) {
        if (outcomes[entry] == Outcome::cut) cuts_.cuts_[entry] |= cuts_.kinds_[next];
        if (outcomes[entry] == Outcome::open) cuts_.open_[entry] |= cuts_.kinds_[next];
      }
    }
    return true;
  }

  const SplitTables& tables_;
  LocalCuts cuts_;
  std::vector<size_t> examples_;  // by symbol here, one of the tables'
  States all_;
  std::vector<States> sets_;
  std::map<States, size_t> numbers_;
  std::vector<std::vector<size_t>> next_;       // by set and symbol here
  std::vector<uint32_t> joined_;                // by set, what is equal where they do the same
  std::vector<size_t> members_;                 // by class, a set
  std::vector<std::vector<Outcome>> outcomes_;  // by next symbol and entry
};

std::optional<LocalCuts> LocalCuts::build(const SplitTables& tables) {
  return is_supported() ? Builder(tables).run() : std::nullopt;
}

#if defined(__x86_64__)

#define KRILL_PERMUTE [[gnu::target("avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi,bmi2,lzcnt,popcnt")]]

namespace {

// Sixty-four times an entry of a table of bytes.
class ByteTable {
 public:
  KRILL_PERMUTE explicit ByteTable(const uint8_t* table) {
    for (size_t part = 0; part < 8; ++part) parts_[part] = _mm512_loadu_si512(table + 64 * part);
  }
  // `places` are the lower eight bits of places.
  KRILL_PERMUTE __m512i at(__m512i places, Mask high) const {
    const Mask second = _mm512_movepi8_mask(places);
    return _mm512_mask_blend_epi8(high, half<0>(places, second), half<4>(places, second));
  }

 private:
  template <int kFirst>
  KRILL_PERMUTE __m512i half(__m512i places, Mask second) const {
    const __m512i low = _mm512_permutex2var_epi8(parts_[kFirst], places, parts_[kFirst + 1]);
    const __m512i high = _mm512_permutex2var_epi8(parts_[kFirst + 2], places, parts_[kFirst + 3]);
    return _mm512_mask_blend_epi8(second, low, high);
  }

  __m512i parts_[8];
};

}  // namespace

bool LocalCuts::is_supported() { return Processor::of_this_machine().avx512_permute; }

// The class before a place of a text that is ASCII from `from` on, by as many characters or all since then.
uint8_t LocalCuts::class_before(const uint8_t* text, size_t from, size_t place, size_t characters) const {
  size_t at = place - from > characters ? place - characters : from;
  uint8_t number = at == from ? begin_ : kAll;
  for (; at < place; ++at) number = classes_[entry_of(number) | symbols_[text[at]]];
  return number;
}

// The same as the block's masks, or more than they know: by more characters before, and on a run of one
// symbol by what follows it. Those in `repeated` have the symbol of the next one.
LocalCuts::Outcome LocalCuts::look_further(const uint8_t* text, size_t from, size_t place,
                                           Mask repeated) const {
  const auto length = static_cast<unsigned>(std::countr_one(repeated));
  const uint8_t behind = text[place + length + 1];
  if ((text[place] | behind) >= 0x80) return Outcome::open;
  const uint8_t next = symbols_[behind];
  for (const size_t characters : {kRounds, kMostRounds}) {
    const size_t entry = entry_of(class_before(text, from, place, characters)) | symbols_[text[place]];
    if (length > 0) {
      const Outcome outcome = runs_[entry << symbol_bits_ | next];
      if (outcome != Outcome::open) return outcome;
    } else if ((open_[entry] & kinds_[next]) == 0) {
      return (cuts_[entry] & kinds_[next]) != 0 ? Outcome::cut : Outcome::none;
    }
  }
  return Outcome::open;
}

// Decides what `unknown` has, up to a place that stays unknown, and returns that.
unsigned LocalCuts::decide(const uint8_t* text, size_t from, size_t block, Mask repeated, Mask unknown,
                           Mask& cuts) const {
  for (; unknown != 0; unknown &= unknown - 1) {
    const auto place = static_cast<unsigned>(std::countr_zero(unknown));
    const Mask run = repeated >> place;
    if (run == ~Mask{0} >> place) return place;  // it may go on behind the block
    const Outcome outcome = look_further(text, from, block + place, run);
    if (outcome == Outcome::open) return place;
    if (outcome == Outcome::cut) cuts |= Mask{1} << place;
  }
  return kBlock;
}

// How many of the ends there are up to the last one where the row of the outer ones is known.
size_t LocalCuts::count_kept(const uint8_t* text, size_t from, const uint32_t* ends, size_t count,
                             uint32_t& outer) const {
  for (; count > 0; --count) {
    const uint32_t row = outer_of_[class_before(text, from, ends[count - 1], kMostRounds)];
    if (row == kManyRows) continue;
    outer = row;
    break;
  }
  return count;
}

KRILL_PERMUTE size_t LocalCuts::find(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                                     size_t capacity, uint32_t& outer, bool& is_hard) const {
  const __m512i low_symbols = _mm512_loadu_si512(symbols_.data());
  const __m512i high_symbols = _mm512_loadu_si512(symbols_.data() + 64);
  const __m128i kinds_once = _mm_loadu_si128(reinterpret_cast<const __m128i*>(kinds_.data()));
  const __m512i kinds = _mm512_maskz_broadcast_i32x4(static_cast<__mmask16>(0xffff), kinds_once);
  const ByteTable after(classes_.data()), cut(cuts_.data()), open(open_.data());
  const __m512i one = _mm512_set1_epi8(1), rest = _mm512_set1_epi8(static_cast<char>(0xfe));
  is_hard = text[from] >= 0x80 || size - from <= kBlock + 1;
  if (is_hard) return 0;
  size_t count = 0;
  // No block waits for the one before it.
  for (size_t block = from + 1; block >= kRounds && size - block > kBlock && capacity - count >= kRoom;
       block += kBlock) {
    __m512i classes = _mm512_set1_epi8(static_cast<char>(kAll));
    __m512i all = _mm512_loadu_si512(text + block + 1);
    const __m512i next = _mm512_permutex2var_epi8(low_symbols, all, high_symbols);
    __m512i entries, symbols;
    Mask high = 0;
    for (size_t back = kRounds;; --back) {
      const __m512i bytes = _mm512_loadu_si512(text + block - back);
      all = _mm512_or_si512(all, bytes);
      symbols = _mm512_permutex2var_epi8(low_symbols, bytes, high_symbols);
      entries = _mm512_or_si512(_mm512_and_si512(classes, rest), symbols);
      high = _mm512_test_epi8_mask(classes, one);
      if (back == 0) break;
      classes = after.at(entries, high);
    }
    const __m512i kind = _mm512_shuffle_epi8(kinds, next);
    const Mask wide = _mm512_movepi8_mask(all);
    const Mask unknown = _mm512_test_epi8_mask(open.at(entries, high), kind) | wide;
    Mask cuts = _mm512_test_epi8_mask(cut.at(entries, high), kind) & ~unknown;
    unsigned known = kBlock;
    if (unknown != 0) {
      const Mask repeated = _mm512_cmpeq_epi8_mask(symbols, next) & ~wide;
      known = decide(text, from, block, repeated, unknown, cuts);
      cuts &= below(known);
    }
    count += text::WideScanBlock::write_places(cuts, static_cast<uint32_t>(block), ends + count);
    if (known < kBlock) {
      is_hard = wide != 0;
      break;
    }
  }
  const size_t kept = count_kept(text, from, ends, count, outer);
  is_hard |= count - kept >= kRoom;
  return kept;
}

#else

bool LocalCuts::is_supported() { return false; }

size_t LocalCuts::find(const uint8_t*, size_t, size_t, uint32_t*, size_t, uint32_t&, bool&) const {
  return 0;
}

#endif

}  // namespace krill::regex
