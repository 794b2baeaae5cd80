#include "tokenizer/scanner_pattern.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "regex/automaton.hpp"
#include "regex/tree.hpp"

namespace krill::tokenizer {
namespace {

using text::Pattern;
using Letters = Pattern::Letters;
using Contractions = Pattern::Contractions;

// What tells most other regexes from all patterns.
constexpr std::string_view kSample =
    "It's  12345 dollars!\n\n  No'T\t\n x HTMLParser //\n/ (caf\u00e9) 'quoted' \u00c9T\u00c9 \u6f22\u5b57 "
    "\n ";

std::vector<uint32_t> matches_in(const regex::Dfa& dfa, std::string_view text) {
  std::vector<uint32_t> ends(text.size());
  ends.resize(
      dfa.split(reinterpret_cast<const uint8_t*>(text.data()), text.size(), 0, ends.data(), ends.size()));
  return ends;
}

std::vector<uint32_t> words_in(const Pattern& pattern, std::string_view text) {
  std::vector<uint32_t> ends(text.size() + text::kScanRoom);
  ends.resize(text::scan_words(pattern, reinterpret_cast<const uint8_t*>(text.data()), text.size(), 0,
                               ends.data(), ends.size()));
  return ends;
}

// The pattern, if it is any.
Pattern likely_pattern(const regex::Dfa& dfa) {
  const auto words = [&](std::string_view text) { return matches_in(dfa, text).size(); };
  if (words(" 1") == 1) return Pattern::gpt2;
  Pattern pattern{};
  pattern.letters = words("aB") == 2         ? Letters::by_case
                    : words("!!\u0301") == 2 ? Letters::with_marks
                                             : Letters::after_any;
  const auto contracts = [&](const char* by_itself, const char* after_letters) {
    return pattern.letters == Letters::by_case ? words(after_letters) == 1 : words(by_itself) == 2;
  };
  pattern.contractions = contracts("'Sx", "a'S")   ? Contractions::any_case
                         : contracts("'sx", "a's") ? Contractions::lower
                                                   : Contractions::none;
  const size_t numbers = words("1111");
  pattern.numbers = numbers == 4 ? 1 : numbers == 2 ? 3 : Pattern::kAnyNumber;
  pattern.slashes = words("!\n/") == 1;
  pattern.ends_whole = words("\n ") == 1;
  return pattern;
}

std::string contractions_of(Contractions kind) {
  if (kind == Contractions::none) return {};
  return (kind == Contractions::lower ? "(?:" : "(?i:") + std::string("'s|'t|'re|'ve|'m|'ll|'d)");
}

std::string letters_of(const Pattern& pattern) {
  const std::string contractions = contractions_of(pattern.contractions);
  const std::string lead = "[^\\r\\n\\p{L}\\p{N}]?";
  if (pattern.letters == Letters::by_case) {
    const std::string not_lower = lead + "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]";
    const std::string not_upper = "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]";
    const std::string ending = contractions.empty() ? "" : contractions + "?";
    return not_lower + "*" + not_upper + "+" + ending + "|" + not_lower + "+" + not_upper + "*" + ending;
  }
  const char* const letters = pattern.letters == Letters::with_marks ? "[\\p{L}\\p{M}]+" : "\\p{L}+";
  return (contractions.empty() ? "" : contractions + "|") + lead + letters;
}

}  // namespace

std::string regex_of(const Pattern& pattern) {
  constexpr const char* kSpaces = "|\\s+(?!\\S)|\\s+";
  if (pattern.letters == Letters::after_blank)
    return contractions_of(pattern.contractions) + "| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+" + kSpaces;
  const char* const numbers = pattern.numbers == 1 ? "" : pattern.numbers == 3 ? "{1,3}" : "+";
  const char* const marks = pattern.letters == Letters::with_marks ? "\\p{M}" : "";
  return letters_of(pattern) + "|\\p{N}" + numbers + "| ?[^\\s\\p{L}\\p{N}" + marks + "]+[\\r\\n" +
         (pattern.slashes ? "/" : "") + "]*" + (pattern.ends_whole ? "|\\s+\\z" : "") + "|\\s*[\\r\\n]+" +
         kSpaces;
}

std::optional<Pattern> pattern_of(const regex::Dfa& dfa) {
  if (dfa.matches_empty()) return std::nullopt;
  const Pattern pattern = likely_pattern(dfa);
  if (matches_in(dfa, kSample) != words_in(pattern, kSample)) return std::nullopt;
  const auto automaton = regex::make_automaton(regex::parse(regex_of(pattern)));
  const auto known = automaton ? regex::Dfa::build(*automaton) : std::nullopt;
  if (!known || !known->matches_as(dfa)) return std::nullopt;
  return pattern;
}

}  // namespace krill::tokenizer
