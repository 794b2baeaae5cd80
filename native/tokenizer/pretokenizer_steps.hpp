// The steps of pre-tokenizers: each cuts a text into pieces, exactly as Hugging Face's `tokenizers` does.
//
// In: a text, UTF-8. Out: where its pieces end, and which are left out. Held in memory: tables of a step; it
// is made once, never changes and is shared by threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "regex/regex.hpp"
#include "text/scanner.hpp"

namespace krill::tokenizer {

class Step;
using StepPtr = std::shared_ptr<const Step>;

class Step {
 public:
  // On an end: what lies before it is left out.
  static constexpr uint32_t kDropped = uint32_t{1} << 31;

  Step() = default;
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;
  virtual ~Step() = default;

  // Writes the ends of successive pieces from `from` on, which is 0 or the last end that was written: at
  // least one and up to `capacity` of them, none of them empty; returns how many. They cover the text. `from`
  // is less than `size`, and that is below 2 GiB. `state` is for the step's own use between two calls for one
  // text. Throws std::runtime_error if a pattern backtracks too far.
  virtual size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
                     uint32_t& state) const = 0;
  // Whether there is a cut before each of these characters, wherever it stands.
  virtual bool cuts_before(std::string_view) const { return false; }
  // The automaton whose stretches are the pieces, if there is one.
  virtual const regex::Dfa* automaton() const { return nullptr; }
  // The same step for texts whose bytes stand for the letters that `ByteLevel` writes; null where only the
  // letters themselves can be cut.
  virtual StepPtr over_letters() const { return nullptr; }
  // Bytes that it does not cut apart; null if nothing is known.
  virtual const regex::ByteSet* kept_together() const { return nullptr; }
  virtual size_t bytes() const = 0;
};

// What becomes of the matches of a pattern.
enum class Behavior : uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

std::optional<Behavior> behavior_named(std::string_view name);  // as tokenizer.json writes it

// `Split`: of a regex, or of a string. Throws std::invalid_argument as regex::Regex does.
StepPtr make_split(std::string_view regex, Behavior behavior, bool invert);
StepPtr make_string_split(std::string_view string, Behavior behavior, bool invert);
// The words of a pattern that the scanner knows.
StepPtr make_words(const text::Pattern& pattern);
StepPtr make_digits(bool individual);
StepPtr make_punctuation(Behavior behavior);
StepPtr make_whitespace();
StepPtr make_whitespace_split();
StepPtr make_bert();
StepPtr make_scripts();
// Pieces of so many characters, at least one.
StepPtr make_fixed_length(size_t length);

// Bytes that none of these steps cuts apart; an empty set if nothing is known of one of them.
regex::ByteSet kept_together(const StepPtr* steps, size_t count);

// The same steps, some of them as one where that is possible, and then faster.
std::vector<StepPtr> fused(std::vector<StepPtr> steps);

}  // namespace krill::tokenizer
