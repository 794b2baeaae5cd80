#include "regex/regex.hpp"

#include "check.hpp"
#include "regex/automaton.hpp"

namespace krill::regex {
namespace {

constexpr uint64_t kStepsOfCharacter = 1000;
constexpr uint64_t kStepsAnyway = 5'000'000;

size_t character_length(uint8_t lead) { return lead < 0x80 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4; }

}  // namespace

Regex::Regex(std::string_view pattern) : Regex(parse(pattern)) {}

Regex::Regex(const Tree& tree) {
  matches_empty_ = least_length(*tree.root) == 0 || tree.has_keep;
  if (const auto automaton = make_automaton(tree)) dfa_ = Dfa::build(*automaton);
  if (dfa_) {
    matches_empty_ = dfa_->matches_empty();
  } else {
    backtracker_.emplace(tree);
  }
}

std::optional<Regex> Regex::over_bytes(std::span<const uint16_t, 256> points) const {
  if (!dfa_ || matches_empty_ || reads_bytes()) return std::nullopt;
  return Regex(dfa_->over_bytes(points));
}

size_t Regex::bytes() const { return sizeof(*this) + (dfa_ ? dfa_->bytes() : backtracker_->bytes()); }

bool Regex::find_within(const uint8_t* text, size_t size, size_t from, Match& match,
                        StepBudget& budget) const {
  return dfa_ ? dfa_->find(text, size, from, match, budget)
              : backtracker_->find(text, size, from, match, budget);
}

bool Regex::find(const uint8_t* text, size_t size, size_t from, Match& match) const {
  if (from > size) return false;
  StepBudget budget(kStepsOfCharacter * (size - from) + kStepsAnyway);
  return find_within(text, size, from, match, budget);
}

size_t Regex::split(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) const {
  if (from >= size) return 0;
  if (dfa_ && !matches_empty_) return dfa_->split(text, size, from, ends, capacity);
  expect(capacity >= kLeastCapacity, "a regex splits into at least four stretches at a time");
  return split_one_by_one(text, size, from, ends, capacity);
}

size_t Regex::split_one_by_one(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                               size_t capacity) const {
  StepBudget budget(kStepsOfCharacter * (size - from) + kStepsAnyway);
  size_t count = 0;
  size_t end = from;                                // of what was written
  size_t last_match = from == 0 ? SIZE_MAX : from;  // where it ended
  size_t at = from;                                 // where to search
  Match match{};
  // A gap and the match after it are written together: what follows a gap's end would not be known again.
  while (count + 2 <= capacity && at <= size && find_within(text, size, at, match, budget)) {
    if (match.begin == match.end && match.end == last_match) {
      at += at < size ? character_length(text[at]) : 1;
      continue;
    }
    if (match.begin > end) ends[count++] = static_cast<uint32_t>(match.begin) | kGap;
    ends[count++] = static_cast<uint32_t>(match.end);
    end = at = last_match = match.end;
  }
  if (count + 2 <= capacity && end < size) ends[count++] = static_cast<uint32_t>(size) | kGap;
  return count;
}

}  // namespace krill::regex
