#include "tokenizer/pretokenizer_steps.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "regex/fused_splits.hpp"
#include "regex/symbols.hpp"
#include "regex/unicode.hpp"
#include "text/byte_scan.hpp"
#include "tokenizer/byte_letters.hpp"
#include "tokenizer/pretokenizer_tables.hpp"
#include "tokenizer/scanner_pattern.hpp"

namespace krill::tokenizer {
namespace {

using regex::CodeSet;
using regex::Kind;
using regex::NodePtr;
using regex::Regex;

// Successive matches of a pattern and what lies between, one at a time.
class Stretches {
 public:
  Stretches(const Regex& pattern, bool invert, const uint8_t* text, size_t size, size_t from)
      : pattern_(pattern), match_flag_(invert ? Regex::kGap : 0), text_(text), size_(size), from_(from) {
    fill();
  }

  bool at_end() const { return next_ == count_; }
  bool is_match() const { return (ends_[next_] & Regex::kGap) == match_flag_; }
  size_t end() const { return ends_[next_] & ~Regex::kGap; }

  void advance() {
    if (++next_ == count_) fill();
  }

 private:
  static constexpr size_t kRoom = 64;

  void fill() {
    next_ = 0;
    count_ = pattern_.split(text_, size_, from_, ends_, kRoom);
    if (count_ != 0) from_ = ends_[count_ - 1] & ~Regex::kGap;
  }

  const Regex& pattern_;
  uint32_t match_flag_;
  const uint8_t* text_;
  size_t size_;
  size_t from_;
  size_t next_ = 0;
  size_t count_ = 0;
  uint32_t ends_[kRoom];
};

// Null for patterns that only letters can be matched with.
StepPtr split_over_letters(const Regex& pattern, Behavior behavior, bool invert);

class SplitStep final : public Step {
 public:
  SplitStep(Regex pattern, Behavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {
    if (behavior_ != Behavior::removed && pattern_.reads_bytes()) together_ = pattern_.dfa()->kept_together();
  }

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
             uint32_t&) const override {
    const bool plain = behavior_ == Behavior::isolated || behavior_ == Behavior::removed;
    if (!plain || pattern_.matches_empty() || capacity < Regex::kLeastCapacity)
      return cut_one_by_one(text, size, from, ends, capacity);
    const size_t count = pattern_.split(text, size, from, ends, capacity);
    static_assert(Regex::kGap == kDropped);
    if (behavior_ == Behavior::isolated) {
      for (size_t at = 0; at < count; ++at) ends[at] &= ~kDropped;
    } else if (!invert_) {
      for (size_t at = 0; at < count; ++at) ends[at] ^= kDropped;
    }
    return count;
  }

  size_t bytes() const override { return pattern_.bytes(); }

  const regex::Dfa* automaton() const override {
    return behavior_ == Behavior::isolated && !pattern_.matches_empty() ? pattern_.dfa() : nullptr;
  }

  StepPtr over_letters() const override { return split_over_letters(pattern_, behavior_, invert_); }
  const regex::ByteSet* kept_together() const override { return together_.empty ? nullptr : &together_; }

 private:
  size_t cut_one_by_one(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                        size_t capacity) const {
    Stretches stretches(pattern_, invert_, text, size, from);
    size_t count = 0;
    size_t begin = from;
    while (count < capacity && !stretches.at_end()) {
      const bool is_match = stretches.is_match();
      const size_t end = piece_end(stretches);
      if (end == begin) continue;
      const bool dropped = is_match && behavior_ == Behavior::removed;
      ends[count++] = static_cast<uint32_t>(end) | (dropped ? kDropped : 0);
      begin = end;
    }
    return count;
  }

  // Where the piece ends that begins with the present stretch; what follows it is the present one then.
  size_t piece_end(Stretches& stretches) const {
    const bool is_match = stretches.is_match();
    size_t end = stretches.end();
    stretches.advance();
    const auto joins_next = [&] {
      if (stretches.at_end()) return false;
      const bool next = stretches.is_match();
      switch (behavior_) {
        case Behavior::merged_with_previous: return !is_match && next;
        case Behavior::merged_with_next: return is_match && !next;
        case Behavior::contiguous: return is_match == next;
        default: return false;
      }
    };
    while (joins_next()) {
      end = stretches.end();
      stretches.advance();
      if (behavior_ != Behavior::contiguous) break;
    }
    return end;
  }

  Regex pattern_;
  Behavior behavior_;
  bool invert_;
  regex::ByteSet together_;
};

StepPtr split_over_letters(const Regex& pattern, Behavior behavior, bool invert) {
  auto over = pattern.over_bytes(kLetterOfByte);
  return over ? std::make_shared<SplitStep>(*std::move(over), behavior, invert) : nullptr;
}

// Pieces that end with an ASCII character.
class EndsWithStep final : public Step {
 public:
  explicit EndsWithStep(uint8_t byte) : byte_(byte) {}

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
             uint32_t&) const override {
    size_t count = 0;
    while (from < size && count < capacity) {
      const void* const found = std::memchr(text + from, byte_, size - from);
      from = found == nullptr ? size : static_cast<size_t>(static_cast<const uint8_t*>(found) - text) + 1;
      ends[count++] = static_cast<uint32_t>(from);
    }
    return count;
  }

  // No letter is a space.
  StepPtr over_letters() const override {
    return is_own_letter(byte_) ? std::make_shared<EndsWithStep>(byte_) : nullptr;
  }
  size_t bytes() const override { return sizeof(*this); }

 private:
  uint8_t byte_;
};

// Pieces that begin with a character, but for what stands before the first of them. The regex cuts the same.
class BeginsWithStep final : public Step {
 public:
  BeginsWithStep(std::string character, Regex regex)
      : character_(std::move(character)), regex_(std::move(regex)) {}

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
             uint32_t&) const override {
    if (from == size || capacity == 0) return 0;
    const size_t last = character_.size() - 1;
    size_t count = 0;
    size_t at = from + 1;
    const auto cut_before = [&](size_t found) {
      if (std::memcmp(text + found, character_.data(), character_.size()) != 0) return true;
      ends[count++] = static_cast<uint32_t>(found);
      return count < capacity;
    };
    for (; at + text::Bytes16::kSize + last <= size; at += text::Bytes16::kSize) {
      const auto begins = text::Bytes16::load(text + at).equal(byte(0));
      text::Matches found = (begins & text::Bytes16::load(text + at + last).equal(byte(last))).matches();
      for (; found.any(); found.drop_first())
        if (!cut_before(at + found.first())) return count;
    }
    for (; at + last < size; ++at)
      if (text[at] == byte(0) && !cut_before(at)) return count;
    ends[count++] = static_cast<uint32_t>(size);
    return count;
  }

  size_t bytes() const override { return regex_.bytes(); }
  bool cuts_before(std::string_view character) const override { return character_ == character; }
  const regex::Dfa* automaton() const override { return regex_.dfa(); }
  StepPtr over_letters() const override { return split_over_letters(regex_, Behavior::isolated, false); }

 private:
  uint8_t byte(size_t at) const { return static_cast<uint8_t>(character_[at]); }

  std::string character_;
  Regex regex_;
};

// The words of a pattern that the scanner knows, by the scanner or by the regex, which gives the same: the
// one is three times as fast on ASCII, the other twice as fast elsewhere.
class WordsStep final : public Step {
 public:
  WordsStep(const text::Pattern& pattern, Regex regex) : pattern_(pattern), regex_(std::move(regex)) {}

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
             uint32_t&) const override {
    size_t count = 0;
    while (from < size && count < capacity) {
      const size_t room = capacity - count;
      size_t found = 0;
      if (is_wide(text, size, from)) {
        found = regex_.split(text, size, from, ends + count, std::min(room, kWideWords));
      } else {
        found = text::scan_words(pattern_, text, size, from, ends + count, room);
      }
      count += found;
      from = ends[count - 1];
      if (capacity - count < text::kScanRoom) break;
    }
    return count;
  }

  size_t bytes() const override { return regex_.bytes(); }
  const regex::Dfa* automaton() const override { return regex_.dfa(); }
  StepPtr over_letters() const override { return split_over_letters(regex_, Behavior::isolated, false); }

 private:
  static constexpr size_t kLooked = 64;
  static constexpr size_t kWideWords = 64;

  static bool is_wide(const uint8_t* text, size_t size, size_t from) {
    uint8_t all = 0;
    const size_t end = from + std::min(kLooked, size - from);
    for (size_t at = from; at < end; ++at) all |= text[at];
    return all >= 0x80;
  }

  text::Pattern pattern_;
  Regex regex_;
};

// Pieces of one script; characters of any script belong to what stands before them, and are left out at the
// front.
class ScriptsStep final : public Step {
 public:
  ScriptsStep() {
    std::vector<CodeSet> scripts;
    const uint8_t* at = kScripts;
    uint32_t point = 0;
    for (uint32_t count = regex::read_number(at); count > 0; --count) {
      const uint32_t first = point + regex::read_number(at);
      point = first + regex::read_number(at) + 1;
      const uint32_t script = regex::read_number(at);
      if (script > scripts.size()) scripts.resize(script);
      scripts[script - 1].add(first, point - 1);
    }
    CodeSet any;
    for (const CodeSet& script : scripts) any.add(script);
    scripts.push_back(any.complement());
    if (!symbols_.build(scripts)) throw std::logic_error("there are too many scripts");
    for (size_t symbol = 0; symbol < symbols_.count(); ++symbol) {
      if (symbols_.of_set(scripts.size() - 1)[symbol]) any_ = symbol;
    }
  }

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
             uint32_t&) const override {
    size_t count = 0;
    size_t script = any_;
    size_t length = 0;
    for (size_t at = from; at < size; at += length) {
      const size_t symbol = symbols_.at(text, size, at, length);
      if (symbol == any_ || symbol == script) continue;
      if (at > from) {
        ends[count++] = static_cast<uint32_t>(at) | (script == any_ ? kDropped : 0);
        if (count == capacity) return count;
      }
      script = symbol;
    }
    ends[count++] = static_cast<uint32_t>(size) | (script == any_ ? kDropped : 0);
    return count;
  }

  size_t bytes() const override { return symbols_.bytes(); }

 private:
  regex::Symbols symbols_;
  size_t any_ = 0;
};

class FixedLengthStep final : public Step {
 public:
  explicit FixedLengthStep(size_t length) : length_(length) {
    if (length == 0) throw std::invalid_argument("the length of pieces must be at least 1");
  }

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
             uint32_t&) const override {
    size_t count = 0;
    size_t characters = 0;
    for (size_t at = from + 1; at < size; ++at) {
      if ((text[at] & 0xc0) == 0x80 || ++characters < length_) continue;
      characters = 0;
      ends[count++] = static_cast<uint32_t>(at);
      if (count == capacity) return count;
    }
    ends[count++] = static_cast<uint32_t>(size);
    return count;
  }

  size_t bytes() const override { return sizeof(*this); }

 private:
  size_t length_;
};

class FusedStep final : public Step {
 public:
  FusedStep(regex::FusedSplits splits, const regex::ByteSet& together)
      : splits_(std::move(splits)), together_(together) {}

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity,
             uint32_t& state) const override {
    return splits_.split(text, size, from, ends, capacity, state);
  }

  const regex::ByteSet* kept_together() const override { return together_.empty ? nullptr : &together_; }
  size_t bytes() const override { return splits_.bytes(); }

 private:
  regex::FusedSplits splits_;
  regex::ByteSet together_;
};

// One step for several that follow each other, or null.
StepPtr fused_step(const StepPtr* steps, size_t count) {
  std::vector<const regex::Dfa*> automata;
  for (size_t at = 0; at < count; ++at) automata.push_back(steps[at]->automaton());
  const regex::ByteSet together = kept_together(steps, count);
  if (std::find(automata.begin(), automata.end(), nullptr) != automata.end()) return nullptr;
  auto splits = regex::FusedSplits::build(automata);
  return splits ? std::make_shared<FusedStep>(*std::move(splits), together) : nullptr;
}

NodePtr repeated(CodeSet set) {
  NodePtr node = regex::make(Kind::repeat);
  node->lower = 1;
  node->upper = regex::kUnlimited;
  node->children.push_back(regex::make_set(std::move(set)));
  return node;
}

NodePtr either(NodePtr first, NodePtr second) {
  NodePtr node = regex::make(Kind::alt);
  node->children.push_back(std::move(first));
  node->children.push_back(std::move(second));
  return node;
}

NodePtr optional(NodePtr child) {
  child->lower = 0;
  return child;
}

StepPtr step_of(NodePtr root, Behavior behavior, bool invert) {
  regex::Tree tree;
  tree.root = std::move(root);
  return std::make_shared<SplitStep>(Regex(tree), behavior, invert);
}

regex::Tree merged_with_next(const CodeSet& set) {
  regex::Tree tree;
  tree.root = either(regex::make_list(regex::make_set(set), optional(repeated(set.complement()))),
                     repeated(set.complement()));
  return tree;
}

// Splits at single characters of a set. Their pieces can be matched as they are.
StepPtr split_at(const CodeSet& set, Behavior behavior) {
  const auto& ranges = set.ranges();
  if (behavior == Behavior::merged_with_previous && ranges.size() == 1 && ranges[0].first == ranges[0].last &&
      ranges[0].first < 0x80)
    return std::make_shared<EndsWithStep>(static_cast<uint8_t>(ranges[0].first));
  NodePtr others = repeated(set.complement());
  NodePtr one = regex::make_set(set);
  switch (behavior) {
    case Behavior::removed: return step_of(std::move(others), Behavior::removed, true);
    case Behavior::isolated: break;
    case Behavior::contiguous: one = repeated(set); break;
    case Behavior::merged_with_previous:
      one = regex::make_list(optional(repeated(set.complement())), std::move(one));
      break;
    case Behavior::merged_with_next:
      return std::make_shared<SplitStep>(Regex(merged_with_next(set)), Behavior::isolated, false);
  }
  return step_of(either(std::move(one), std::move(others)), Behavior::isolated, false);
}

StepPtr split_step(const regex::Tree& tree, Behavior behavior, bool invert) {
  CodeSet set;
  if (!invert && regex::as_set(*tree.root, set)) return split_at(set, behavior);
  Regex regex(tree);
  // Words of a pattern cover all text: what is not a match does not occur.
  const bool keeps_matches = behavior == Behavior::isolated || (behavior == Behavior::removed && invert);
  const auto pattern = keeps_matches && regex.is_dfa() ? pattern_of(*regex.dfa()) : std::nullopt;
  if (pattern) return std::make_shared<WordsStep>(*pattern, std::move(regex));
  return std::make_shared<SplitStep>(std::move(regex), behavior, invert);
}

}  // namespace

std::optional<Behavior> behavior_named(std::string_view name) {
  if (name == "Removed") return Behavior::removed;
  if (name == "Isolated") return Behavior::isolated;
  if (name == "MergedWithPrevious") return Behavior::merged_with_previous;
  if (name == "MergedWithNext") return Behavior::merged_with_next;
  if (name == "Contiguous") return Behavior::contiguous;
  return std::nullopt;
}

StepPtr make_split(std::string_view regex, Behavior behavior, bool invert) {
  return split_step(regex::parse(regex), behavior, invert);
}

StepPtr make_string_split(std::string_view string, Behavior behavior, bool invert) {
  std::string escaped;
  for (const char byte : string) {
    if (std::string_view("\\.+*?()|[]{}^$#&-~").find(byte) != std::string_view::npos) escaped.push_back('\\');
    escaped.push_back(byte);
  }
  const regex::Tree tree = regex::parse(escaped);
  CodeSet set;
  if (invert || behavior != Behavior::merged_with_next || !regex::as_set(*tree.root, set))
    return split_step(tree, behavior, invert);
  return std::make_shared<BeginsWithStep>(std::string(string), Regex(merged_with_next(set)));
}

StepPtr make_words(const text::Pattern& pattern) {
  return std::make_shared<WordsStep>(pattern, Regex(regex_of(pattern)));
}

StepPtr make_digits(bool individual) {
  return split_at(regex::read_ranges(kDigits), individual ? Behavior::isolated : Behavior::contiguous);
}

StepPtr make_punctuation(Behavior behavior) { return split_at(regex::read_ranges(kPunctuation), behavior); }

StepPtr make_whitespace() {
  const CodeSet words = regex::read_ranges(kRegexWords);
  CodeSet others = regex::read_ranges(kRegexSpaces);
  others.add(words);
  return step_of(either(repeated(words), repeated(others.complement())), Behavior::removed, true);
}

StepPtr make_whitespace_split() { return split_at(regex::read_ranges(kWhitespace), Behavior::removed); }

StepPtr make_bert() {
  const CodeSet spaces = regex::read_ranges(kWhitespace);
  const CodeSet marks = regex::read_ranges(kPunctuation).intersection(spaces.complement());
  CodeSet others = spaces;
  others.add(marks);
  return step_of(either(regex::make_set(marks), repeated(others.complement())), Behavior::removed, true);
}

StepPtr make_scripts() { return std::make_shared<ScriptsStep>(); }

StepPtr make_fixed_length(size_t length) { return std::make_shared<FixedLengthStep>(length); }

regex::ByteSet kept_together(const StepPtr* steps, size_t count) {
  regex::ByteSet all;
  for (size_t at = 0; at < count; ++at) {
    const regex::ByteSet* const own = steps[at]->kept_together();
    if (own == nullptr) return {};
    if (at == 0) all = *own;
    all.intersect(*own);
  }
  return all;
}

std::vector<StepPtr> fused(std::vector<StepPtr> steps) {
  std::vector<StepPtr> result;
  for (size_t begin = 0; begin < steps.size();) {
    StepPtr one;
    size_t count = steps.size() - begin;
    while (count > 1 && !(one = fused_step(steps.data() + begin, count))) --count;
    result.push_back(one ? std::move(one) : std::move(steps[begin]));
    begin += count;
  }
  return result;
}

}  // namespace krill::tokenizer
