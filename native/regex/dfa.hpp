// A deterministic automaton that finds the match which the alternatives' order prefers, one table look-up for
// each character.
//
// A state is an ordered list of places in the pattern, as they stand after a character was read and before it
// is known what follows. So whether a match ends is said by the step to the next symbol, which may also be
// the text's end.
//
// In: an automaton; then text. Out: matches. Held in memory: two tables of 4 bytes for each state and symbol;
// the number of states is limited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "regex/ascii_pairs.hpp"
#include "regex/automaton.hpp"
#include "regex/byte_set.hpp"
#include "regex/match.hpp"
#include "regex/symbols.hpp"

namespace krill::regex {

class Dfa {
 public:
  // Nothing if there would be too many states.
  static std::optional<Dfa> build(const Automaton& automaton);

  // The same for texts of which each byte stands for a character: the code points of all bytes.
  Dfa over_bytes(std::span<const uint16_t, 256> points) const;
  bool reads_bytes() const { return symbols_.reads_bytes(); }
  // Bytes that stay together: what consists of them alone is one stretch, here those that are classed as the
  // letter a is. Only for an automaton over bytes.
  ByteSet kept_together() const;

  // Whether it can match without taking a character.
  bool matches_empty() const { return matches_empty_; }

  // The leftmost match that begins at `from` or later. `budget` is what may be read again and again.
  bool find(const uint8_t* text, size_t size, size_t from, Match& match, StepBudget& budget) const;

  // Whether both find the same matches in every text. False for automata that look back or are large.
  bool matches_as(const Dfa& other) const;

  // As Regex::split; only for patterns that take a character at least.
  size_t split(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) const;

  size_t bytes() const {
    return symbols_.bytes() + (steps_.size() + cuts_.size()) * sizeof(uint32_t) + pairs_.bytes();
  }

 private:
  friend class FusedSplits;
  class Determiniser;

  // Steps: the row of the next state, and whether a match ends before the symbol. Row 0 is the end.
  static constexpr uint32_t kMatch = 1;
  // Cuts: steps that begin the next match where one ends, as ascii_pairs.hpp says. Where that is not before
  // this symbol, they are special: one symbol back, or further.

  Dfa() = default;
  void make_cuts(const std::vector<bool>& just_matched, const std::vector<uint32_t>& start_of);
  // By state: whether a match ends after it, whatever follows.
  std::vector<bool> surely_matching() const;
  // Whether every character that begins a match is one by itself, so that gaps end with certainty.
  bool has_sure_gaps() const;
  uint32_t start_row(const uint8_t* text, size_t at) const {
    return looks_back_ ? start_rows_[symbols_.before(text, at)] : start_rows_[0];
  }
  // The end of the match that begins at `at`, if one does; how far was read.
  bool match_at(const uint8_t* text, size_t size, size_t at, size_t& end, size_t& read) const;

  Symbols symbols_;
  unsigned stride_bits_ = 0;
  size_t stride_ = 0;  // a power of two
  bool looks_back_ = false;
  bool matches_empty_ = false;
  std::vector<uint32_t> start_rows_;  // by what stands before
  std::vector<uint32_t> steps_;       // row << 1 | kMatch
  std::vector<uint32_t> cuts_;        // row << kCutFlags | flags
  AsciiPairs pairs_;
};

}  // namespace krill::regex
