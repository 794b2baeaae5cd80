// Drives regexes and pre-tokenizers with patterns and steps taken from the input, and aborts where they break
// their word: stretches and pieces cover the text, any capacity gives the same, and both matchers find the
// same.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/readers_fuzz.hpp"
#include "regex/regex.hpp"
#include "tokenizer/byte_letters.hpp"
#include "tokenizer/pretokenizer.hpp"

namespace krill::fuzz {

// What patterns are put together from.
constexpr std::string_view kPatternParts[] = {
    "a",          "b",      "s",           "'",        " ",       "\\n",
    "\\s",        "\\S",    "\\d",         "\\w",      "\\p{L}",  "\\P{N}",
    "[a-z",       "[^",     "]",           "&&",       "[:",      ":]",
    "-",          "(",      "(?:",         "(?i:",     "(?=",     "(?!",
    "(?<=",       "(?<!",   "(?>",         "(?x)",     "(?<n>",   ")",
    ")",          "|",      "*",           "+",        "?",       "++",
    "*+",         "??",     "{1,3}",       "{2}",      "{3,1}",   "{,2}",
    "^",          "$",      "\\b",         "\\A",      "\\z",     "\\Z",
    "\\G",        "\\R",    "\\1",         "\\k<n>",   ".",       "\\x{e9}",
    "\\K",        "\\g<1>", "\\g<n>",      "\\g<-1>",  "(",       ")",
    "\\xC3\\xA9", "\\101",  "\\cA",        "\xc3\x9f", "ss",      "\xe6\xbc\xa2",
    "\\",         "{",      "[[:alpha:]]", "\\p{",     "\\u0041", "x",
    "\\X",        "\\y",    "\\Y",         "(?~",      "(?~|",    "(?~|)",
    "(?(1)",      "(?(a)",  "(?(<n>)",     "(?y{w})",  "(?i)",    "\\2",
};

constexpr std::string_view kTextParts[] = {
    "a",
    "b",
    "s",
    "S",
    "'",
    " ",
    "\n",
    "\r",
    "1",
    "A",
    "x",
    "-",
    "\xc3\xa9",
    "\xc3\x9f",
    "\xe6\xbc\xa2",
    "\xf0\x9f\x98\x80",
    "/",
    "l",
    "e",
    "\t",
    "\xc3\x89",
    "\xcc\x81",
    "\xc2\xa0",
    "  ",
    "\xe2\x80\x8d",
    "\xf0\x9f\x87\xa6",
    "\xea\xb0\x80",
    "\xe1\x86\xa8",
};

inline std::string pattern_from(Settings& settings) {
  std::string pattern;
  for (size_t parts = settings.next() % 24; parts > 0; --parts) {
    const uint8_t part = settings.next();
    if (part < 250) {
      pattern += kPatternParts[part % std::size(kPatternParts)];
    } else {
      pattern.push_back(static_cast<char>(settings.next()));
    }
  }
  return pattern;
}

inline std::string well_formed_text(Settings settings) {
  std::string text;
  for (size_t at = 0; at < settings.rest_size() && at < 64; ++at)
    text += kTextParts[settings.rest()[at] % std::size(kTextParts)];
  return text;
}

// Longer, and hardly anything but ASCII.
inline std::string mostly_ascii_text(Settings settings) {
  constexpr std::string_view kAsciiParts[] = {"a", "b", "s", "'", " ", "\n", "\r", "1",
                                              "A", "x", "-", "/", "l", "e",  "\t", "    "};
  std::string text;
  for (size_t at = 0; at < settings.rest_size() && at < 512; ++at) {
    const uint8_t part = settings.rest()[at];
    text +=
        part < 252 ? kAsciiParts[part % std::size(kAsciiParts)] : kTextParts[part % std::size(kTextParts)];
  }
  return text;
}

inline std::vector<uint32_t> split_in_steps(const regex::Regex& pattern, const std::string& text,
                                            size_t capacity) {
  const std::vector<uint8_t> exact(text.begin(), text.end());
  std::vector<uint32_t> ends;
  std::vector<uint32_t> step(capacity);
  for (size_t from = 0;;) {
    const size_t count = pattern.split(exact.data(), exact.size(), from, step.data(), capacity);
    require(count <= capacity, "regex: more stretches than fit");
    if (count == 0) break;
    ends.insert(ends.end(), step.begin(), step.begin() + static_cast<ptrdiff_t>(count));
    const size_t end = step[count - 1] & ~regex::Regex::kGap;
    require(end >= from && (end > from || end == exact.size()), "regex: no progress");
    from = end;
  }
  require((ends.empty() ? 0 : ends.back() & ~regex::Regex::kGap) == exact.size(),
          "regex: not all of the text");
  return ends;
}

// The automaton and the backtracking matcher find the same.
inline void check_matchers(const regex::Tree& tree, const std::string& text) {
  const auto automaton = regex::make_automaton(tree);
  const auto dfa = automaton ? regex::Dfa::build(*automaton) : std::nullopt;
  if (!dfa) return;
  const regex::Backtracker backtracker(tree);
  const auto* const bytes = reinterpret_cast<const uint8_t*>(text.data());
  for (size_t from = 0; from <= text.size(); ++from) {
    if (from < text.size() && (bytes[from] & 0xc0) == 0x80) continue;
    regex::Match first{};
    regex::Match second{};
    regex::StepBudget one(1'000'000);
    regex::StepBudget other(1'000'000);
    const bool found = dfa->find(bytes, text.size(), from, first, one);
    require(found == backtracker.find(bytes, text.size(), from, second, other),
            "regex: one matcher finds nothing");
    require(!found || (first.begin == second.begin && first.end == second.end), "regex: matchers differ");
  }
}

inline void fuzz_patterns(Settings settings) {
  const size_t capacity = regex::Regex::kLeastCapacity + settings.next() % 20;
  const std::string pattern = pattern_from(settings);
  try {
    const regex::Tree tree = regex::parse(pattern);
    const regex::Regex made(tree);
    const std::string text = well_formed_text(settings);
    check_matchers(tree, text);
    require(split_in_steps(made, text, 4096) == split_in_steps(made, text, capacity),
            "regex: the capacity shows");
    split_in_steps(made, {settings.rest(), settings.rest() + settings.rest_size()}, capacity);
  } catch (const std::invalid_argument&) {
  } catch (const std::runtime_error&) {
  }
}

inline tokenizer::PreTokenizer::Item step_from(Settings& settings) {
  const auto behavior = static_cast<tokenizer::Behavior>(settings.next() % 5);
  switch (settings.next() % 11) {
    case 0: return tokenizer::make_digits(settings.flag());
    case 1: return tokenizer::make_punctuation(behavior);
    case 2: return tokenizer::make_whitespace();
    case 3: return tokenizer::make_bert();
    case 4: return tokenizer::make_scripts();
    case 5: return tokenizer::make_fixed_length(1 + settings.next() % 5);
    case 6: return tokenizer::make_string_split(settings.flag() ? "a" : "", behavior, settings.flag());
    case 7:
      return tokenizer::Rewrite{settings.flag() ? "\xe2\x96\x81" : "", "_",
                                static_cast<tokenizer::Rewrite::Where>(settings.next() % 3)};
    case 8: return tokenizer::make_words(text::Pattern::gpt2);
    case 9: return tokenizer::Rewrite{.letters = true};
    default: return tokenizer::make_split(pattern_from(settings), behavior, settings.flag());
  }
}

inline std::vector<uint32_t> cut_in_steps(const tokenizer::PreTokenizerPtr& pre_tokenizer,
                                          const std::vector<uint8_t>& bytes, size_t capacity) {
  normalize::Text text;
  text.track(capacity % 2 == 0);
  text.assign(bytes.data(), bytes.size());
  tokenizer::PreTokenizerCutter cutter(pre_tokenizer);
  cutter.prepare(text, 1);
  std::vector<uint32_t> ends;
  std::vector<uint32_t> step(capacity);
  for (size_t from = 0; from < text.size();) {
    const size_t count = cutter.cut(text.data(), text.size(), from, step.data(), capacity);
    require(count > 0 && count <= capacity, "pre-tokenizer: nothing found, or more than fits");
    for (size_t at = 0; at < count; ++at) {
      const size_t end = step[at] & ~tokenizer::Step::kDropped;
      require(end > from && end <= text.size(), "pre-tokenizer: not rising");
      from = end;
    }
    ends.insert(ends.end(), step.begin(), step.begin() + static_cast<ptrdiff_t>(count));
  }
  return ends;
}

// Step by step, each piece a text of its own.
inline std::vector<uint32_t> cut_plainly(const std::vector<tokenizer::StepPtr>& steps,
                                         const std::vector<uint8_t>& bytes) {
  std::vector<uint32_t> ends(bytes.empty() ? 0 : 1, static_cast<uint32_t>(bytes.size()));
  for (const tokenizer::StepPtr& step : steps) {
    std::vector<uint32_t> finer;
    size_t begin = 0;
    for (const uint32_t end : ends) {
      if (end & tokenizer::Step::kDropped) {
        finer.push_back(end);
        begin = end & ~tokenizer::Step::kDropped;
        continue;
      }
      const std::vector<uint8_t> piece(bytes.begin() + static_cast<ptrdiff_t>(begin),
                                       bytes.begin() + static_cast<ptrdiff_t>(end));
      uint32_t one = 0;
      uint32_t state = 0;
      for (size_t from = 0; from < piece.size(); from = one & ~tokenizer::Step::kDropped) {
        require(step->cut(piece.data(), piece.size(), from, &one, 1, state) == 1,
                "pre-tokenizer: not one piece");
        finer.push_back(one + static_cast<uint32_t>(begin));
      }
      begin = end;
    }
    ends = std::move(finer);
  }
  return ends;
}

// A step over the bytes of a text cuts where it cuts the letters that stand for them.
inline void check_over_letters(const tokenizer::StepPtr& step, const std::string& text) {
  const tokenizer::StepPtr over = step->over_letters();
  if (!over) return;
  const std::vector<uint8_t> bytes(text.begin(), text.end());
  std::vector<uint8_t> letters(2 * bytes.size());
  std::vector<uint32_t> begins;  // of letters
  uint8_t* out = letters.data();
  for (const uint8_t byte : bytes) {
    begins.push_back(static_cast<uint32_t>(out - letters.data()));
    out = tokenizer::write_letter(out, byte);
  }
  letters.resize(static_cast<size_t>(out - letters.data()));
  begins.push_back(static_cast<uint32_t>(letters.size()));
  std::vector<uint32_t> ends = cut_plainly({over}, bytes);
  for (uint32_t& end : ends)
    end = begins[end & ~tokenizer::Step::kDropped] | (end & tokenizer::Step::kDropped);
  require(ends == cut_plainly({step}, letters), "pre-tokenizer: bytes are cut otherwise than letters");
}

// Sequences of steps, which may have become one, some of them over bytes.
inline void fuzz_sequences(Settings settings) {
  try {
    std::vector<tokenizer::StepPtr> steps;
    std::vector<tokenizer::PreTokenizer::Item> items;
    for (size_t count = 2 + settings.next() % 2; count > 0; --count) {
      constexpr std::string_view kUsual[] = {
          "\\d{1,3}",
          "[a-z]+",
          "\\s+(?!\\S)|\\s+",
          "\\p{L}+|'s",
          ".",
          "'s|'t|'re|'ll| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
          "[!-/][A-Za-z]+|[^\r\n\\p{L}\\p{P}]?\\p{L}+| ?\\p{P}+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
          "a+b?|ab+s|1 +A",
      };
      const uint8_t which = settings.next();
      steps.push_back(tokenizer::make_split(
          which < 200 ? std::string(kUsual[which % std::size(kUsual)]) : pattern_from(settings),
          tokenizer::Behavior::isolated, false));
      if (const auto over = count < 3 && settings.flag() ? steps.back()->over_letters() : nullptr)
        steps.back() = over;
      items.emplace_back(steps.back());
    }
    const auto made = std::make_shared<tokenizer::PreTokenizer>(std::move(items));
    const std::string text = well_formed_text(settings);
    for (const tokenizer::StepPtr& step : steps) check_over_letters(step, text);
    for (const std::string& cut : {text, mostly_ascii_text(settings)}) {
      const std::vector<uint8_t> exact(cut.begin(), cut.end());
      const std::vector<uint32_t> expected = cut_plainly(steps, exact);
      require(cut_in_steps(made, exact, 4096) == expected, "pre-tokenizer: steps in one cut otherwise");
      require(cut_in_steps(made, exact, 1) == expected, "pre-tokenizer: the capacity shows");
    }
  } catch (const std::invalid_argument&) {
  } catch (const std::runtime_error&) {
  }
}

inline void fuzz_steps(Settings settings) {
  const size_t capacity = size_t{1} + settings.next() % 20;
  try {
    std::vector<tokenizer::PreTokenizer::Item> items;
    for (size_t count = settings.next() % 4; count > 0; --count) items.push_back(step_from(settings));
    const auto made = std::make_shared<tokenizer::PreTokenizer>(std::move(items));
    const std::string text = well_formed_text(settings);
    const std::vector<uint8_t> exact(text.begin(), text.end());
    require(cut_in_steps(made, exact, 4096) == cut_in_steps(made, exact, capacity),
            "pre-tokenizer: the capacity shows");
    cut_in_steps(made, {settings.rest(), settings.rest() + settings.rest_size()}, capacity);
  } catch (const std::invalid_argument&) {
  } catch (const std::runtime_error&) {
  }
}

// Tables of all characters are made for each pattern, which takes as long as hundreds of other inputs.
inline void fuzz_regex(const uint8_t* data, size_t size) {
  Settings settings(data, size);
  switch (settings.next() % 64) {
    case 1: return fuzz_patterns(settings);
    case 2: return fuzz_steps(settings);
    case 3: return fuzz_sequences(settings);
    default: return;
  }
}

}  // namespace krill::fuzz
