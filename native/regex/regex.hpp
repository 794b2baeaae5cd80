// The regexes of `Split` and `Replace` in a tokenizer.json, with the matches that Hugging Face's tokenizers
// find: Oniguruma's syntax, its sets of characters, its order of preference.
//
// In: a pattern; then text, UTF-8. Out: matches. Held in memory: tables, of the size that `bytes` says.
// Patterns that look at one character around a place are matched by a deterministic automaton, others by a
// backtracking matcher with a limit on its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "regex/backtracker.hpp"
#include "regex/dfa.hpp"
#include "regex/match.hpp"
#include "regex/tree.hpp"

namespace krill::regex {

class Regex {
 public:
  // Throws std::invalid_argument if the peer would refuse the pattern, and Unsupported, which is one too, if
  // the pattern has something that is missing here.
  explicit Regex(std::string_view pattern);
  explicit Regex(const Tree& tree);

  // The leftmost match that begins at `from` or later. What stands before `from` is visible to looks behind,
  // `\b` and
  // `^`. Throws std::runtime_error if the pattern backtracks too far. Texts are below 4 GiB.
  bool find(const uint8_t* text, size_t size, size_t from, Match& match) const;

  static constexpr uint32_t kGap = kGapFlag;
  // With less room than this, `split` would not know where to go on after an empty match.
  static constexpr size_t kLeastCapacity = 4;

  // All matches in the order of the peer's `find_iter`, and what lies between them, as successive stretches
  // that cover the text from `from`, which is 0 or the last end written before. Writes their ends, at least
  // one unless `from` is the text's end, and up to `capacity`; returns how many. kGap is added to the end of
  // a stretch between matches. Empty matches are stretches without length. Texts are below 2 GiB.
  size_t split(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) const;

  // The same for texts of which each byte stands for a character: the code points of all bytes. Nothing for
  // patterns that are matched by backtracking or take no character, or that read bytes already.
  std::optional<Regex> over_bytes(std::span<const uint16_t, 256> points) const;

  bool reads_bytes() const { return dfa_ && dfa_->reads_bytes(); }
  bool is_dfa() const { return dfa_.has_value(); }
  const Dfa* dfa() const { return dfa_ ? &*dfa_ : nullptr; }
  // Whether `split` may write stretches without length.
  bool matches_empty() const { return matches_empty_; }
  size_t bytes() const;

 private:
  explicit Regex(Dfa dfa) : dfa_(std::move(dfa)) {}

  bool find_within(const uint8_t* text, size_t size, size_t from, Match& match, StepBudget& budget) const;
  size_t split_one_by_one(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                          size_t capacity) const;

  std::optional<Dfa> dfa_;
  std::optional<Backtracker> backtracker_;
  bool matches_empty_ = false;
};

}  // namespace krill::regex
