// Several splits one after the other as one automaton: each cuts the pieces of the one before, as texts of
// their own.
//
// The automata of all splits but the last have to say at once where they cut; then what the next one reads is
// known, too: the same symbols, with an end where a piece ends. States of the product are those of all
// automata together.
//
// In: automata; then text. Out: where the pieces of the last one end. Held in memory: tables of 4 bytes for
// each state and symbol; the number of states is limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "regex/ascii_pairs.hpp"
#include "regex/dfa.hpp"
#include "regex/local_cuts.hpp"
#include "regex/symbols.hpp"

namespace krill::regex {

class FusedSplits {
 public:
  // Nothing if these can't be fused. All stretches, matches and what lies between them, are pieces.
  static std::optional<FusedSplits> build(const std::vector<const Dfa*>& levels);

  // Writes the ends of successive pieces from `from` on, at least one unless `from` is `size`, and up to
  // `capacity`; returns how many. `state` is where the automata are: whatever it is if `from` is 0, and left
  // for the next call.
  size_t split(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
               uint32_t& state) const;
  // The same by the automata alone, up to some hundred pieces; for tests.
  size_t split_plainly(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
                       uint32_t& state) const;

  size_t bytes() const {
    return symbols_.bytes() + last_.bytes() +
           (outer_.size() + begins_.size() + cuts_.size()) * sizeof(uint32_t) + pairs_.bytes() +
           (local_ ? local_->bytes() : 0);
  }

 private:
  class Builder;

  struct Place {
    size_t at;
    uint32_t outer;  // the row of the outer automata before the character there
  };

  explicit FusedSplits(const Dfa& last) : last_(last) {}

  size_t symbol_at(const uint8_t* text, size_t size, size_t at, size_t& length) const {
    length = 1;
    return at < size ? symbols_.at(text, size, at, length) : symbols_.end();
  }
  // Of the outer automata, before the character at `at`; `row` is that of the product before the character at
  // `place`, which is the same or the one before.
  Place place_at(const uint8_t* text, size_t at, size_t place, uint32_t row) const {
    if (place < at) row = cuts_[row + symbols_.of_ascii(text[place])] >> kCutFlags;
    return {at, outer_of_[row >> stride_bits_]};
  }
  size_t split_by_states(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
                         uint32_t& state, StepBudget& budget) const;
  bool last_matches(const uint8_t* text, size_t size, Place begin, Place& end, StepBudget& budget) const;
  // The next one or two cuts after `begin`, where a piece begins.
  size_t find_cuts(const uint8_t* text, size_t size, Place begin, Place* cuts, StepBudget& budget) const;

  Dfa last_;
  Symbols symbols_;
  unsigned stride_bits_ = 0;
  size_t stride_ = 0;                  // a power of two
  std::vector<uint8_t> last_symbols_;  // by symbol, that of the last automaton; also of the end
  std::vector<uint32_t> outer_;        // row << 1 | whether there is a cut before the symbol
  std::vector<uint32_t>
      begins_;                  // by row of the outer ones: the row after a symbol with which a piece begins
  std::vector<uint32_t> cuts_;  // as those of Dfa
  std::vector<uint32_t> outer_of_;  // by state: the row of the outer ones
  AsciiPairs pairs_;
  std::optional<LocalCuts> local_;
};

}  // namespace krill::regex
