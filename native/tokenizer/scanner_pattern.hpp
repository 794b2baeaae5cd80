// Which regexes cut text into the words that the scanner finds.
//
// In: a regex, or a pattern of the scanner. Out: the other one. Held in memory: nothing.
#pragma once

#include <optional>
#include <string>

#include "regex/dfa.hpp"
#include "text/scanner.hpp"

namespace krill::tokenizer {

std::string regex_of(const text::Pattern& pattern);

// The pattern whose words are the matches of an automaton in every text. How its regex was written does not
// matter: the automata are compared.
std::optional<text::Pattern> pattern_of(const regex::Dfa& dfa);

}  // namespace krill::tokenizer
