// Gopher's rules for what reads like prose: how many words, how long, with what symbols, in what lines.
#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "quality/filters.hpp"
#include "quality/lines.hpp"
#include "text/byte_scan.hpp"

namespace krill::quality {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kEllipsis = "\u2026"sv;
constexpr std::string_view kBullet = "\u2022"sv;

// Which words of a document are stop words.
class StopWords {
 public:
  explicit StopWords(std::vector<std::string> words) : words_(std::move(words)) {
    for (const std::string& word : words_)
      if (!word.empty()) sizes_[static_cast<uint8_t>(word[0])] |= size_bit(word.size());
  }

  size_t count() const { return words_.size(); }

  // The number of the stop word that this is, or count().
  size_t find(const uint8_t* word, size_t size) const {
    // Its first byte and its size rule nearly every other word out.
    if ((sizes_[word[0]] & size_bit(size)) == 0) return count();
    const auto found = std::find(words_.begin(), words_.end(), view(word, size));
    return static_cast<size_t>(found - words_.begin());
  }

 private:
  static uint64_t size_bit(size_t size) { return uint64_t{1} << std::min<size_t>(size, 63); }

  std::vector<std::string> words_;
  std::array<uint64_t, 256> sizes_{};
};

struct WordFacts {
  size_t not_symbols = 0;
  size_t characters = 0;  // of those
  size_t with_letter = 0;
  size_t stop_words = 0;  // different ones
};

struct LineFacts {
  size_t lines = 0;
  size_t bullet_lines = 0;
  size_t ellipsis_lines = 0;
};

// Whether any character has one of the traits, or, if `lacks`, lacks all of them.
template <bool kLacks>
bool any_character(const uint8_t* word, size_t size, Traits traits) {
  for (size_t at = 0; at < size;) {
    const Character here = character_at(word + at, size - at);
    if (((traits_of(here.point) & traits) == 0) == kLacks) return true;
    at += here.length;
  }
  return false;
}

WordFacts word_facts(Document& document, const StopWords& stop_words, size_t enough_stop_words) {
  WordFacts facts;
  std::vector<bool> seen(stop_words.count());
  const bool ascii = document.is_ascii();
  document.each_word([&](const uint8_t* word, size_t size) {
    // No letter is a symbol, so that most words are settled by their first byte.
    const bool letter_first = kByteKinds[word[0]] == kLetterByte;
    if (letter_first || any_character<true>(word, size, kSymbol)) {
      ++facts.not_symbols;
      facts.characters += ascii ? size : count_characters(word, size);
    }
    facts.with_letter += letter_first || any_character<false>(word, size, kAlphabetic);
    if (facts.stop_words >= enough_stop_words) return;
    const size_t number = stop_words.find(word, size);
    if (number == stop_words.count() || seen[number]) return;
    seen[number] = true;
    ++facts.stop_words;
  });
  return facts;
}

// Hashes and ellipses; dots in a row count as many ellipses as fit.
class SymbolCount {
 public:
  SymbolCount(const uint8_t* text, size_t size) : text_(text), size_(size) {
    size_t at = 0;
    for (; at + 16 <= size; at += 16) {
      const text::Bytes16 block = text::Bytes16::load(text + at);
      text::Matches found = (block.equal('#') | block.equal('.') | block.equal(0xe2)).matches();
      for (; found.any(); found.drop_first()) look(at + found.first());
    }
    for (; at < size; ++at) look(at);
  }

  size_t hashes = 0;
  size_t ellipses = 0;

 private:
  void look(size_t at) {
    if (text_[at] == '#') {
      ++hashes;
    } else if (text_[at] == '.') {
      // Only the last dot of a row knows how many they are.
      ++dots_;
      if (at + 1 == size_ || text_[at + 1] != '.') ellipses += std::exchange(dots_, 0) / 3;
    } else if (text_[at] == 0xe2) {
      ellipses += view(text_ + at, size_ - at).starts_with(kEllipsis);
    }
  }

  const uint8_t* text_;
  size_t size_;
  size_t dots_ = 0;
};

LineFacts count_lines(const uint8_t* text, size_t size) {
  LineFacts facts;
  split_lines(text, size, [&](Span line) {
    const Span bare = stripped(text, line);
    const std::string_view content = view(text + bare.begin, bare.size);
    ++facts.lines;
    facts.bullet_lines += content.starts_with('-') || content.starts_with(kBullet);
    facts.ellipsis_lines += content.ends_with("...") || content.ends_with(kEllipsis);
  });
  return facts;
}

class GopherQuality final : public Filter {
 public:
  explicit GopherQuality(GopherQualityLimits limits)
      : limits_(std::move(limits)), stop_words_(limits_.stop_words) {}

  std::vector<std::string> reasons() const override {
    return {"gopher_short_doc",
            "gopher_long_doc",
            "gopher_below_avg_threshold",
            "gopher_above_avg_threshold",
            "gopher_too_many_hashes",
            "gopher_too_many_ellipsis",
            "gopher_too_many_bullets",
            "gopher_too_many_end_ellipsis",
            "gopher_below_alpha_threshold",
            "gopher_enough_stop_words"};
  }

  std::vector<Statistic> statistics() const override {
    return {{"gopher_words", true},         {"gopher_mean_word_length", false},
            {"gopher_hash_ratio", false},   {"gopher_ellipsis_ratio", false},
            {"gopher_bullet_lines", false}, {"gopher_ellipsis_lines", false},
            {"gopher_alpha_words", false},  {"gopher_stop_words", true}};
  }

  unsigned scratch_parts() const override { return kWordsPart; }

  size_t judge(Scratch& scratch, double* values) const override {
    Document& document = scratch.document;
    const size_t words = document.words().total();
    const size_t enough = values != nullptr ? stop_words_.count() : limits_.min_stop_words;
    const WordFacts facts = word_facts(document, stop_words_, enough);
    // Without words there is nothing to measure.
    if (words == 0 || facts.not_symbols < limits_.min_doc_words) return 1;
    if (limits_.max_doc_words != 0 && facts.not_symbols > limits_.max_doc_words) return 2;
    const SymbolCount symbols(document.text(), document.size());
    const LineFacts lines = count_lines(document.text(), document.size());
    const double measured[] = {
        static_cast<double>(facts.not_symbols), mean_length(facts),
        share(symbols.hashes, words),           share(symbols.ellipses, words),
        share(lines.bullet_lines, lines.lines), share(lines.ellipsis_lines, lines.lines),
        share(facts.with_letter, words),        static_cast<double>(facts.stop_words)};
    if (values != nullptr) std::copy(std::begin(measured), std::end(measured), values);
    return first_violation(measured);
  }

 private:
  // A mean of nothing compares to nothing, as NumPy's.
  static double mean_length(const WordFacts& facts) {
    return facts.not_symbols == 0 ? std::numeric_limits<double>::quiet_NaN()
                                  : share(facts.characters, facts.not_symbols);
  }

  size_t first_violation(const double* measured) const {
    const auto above = [](double value, double limit) { return limit != 0 && value > limit; };
    const auto below = [](double value, double limit) { return limit != 0 && value < limit; };
    if (below(measured[1], limits_.min_avg_word_length)) return 3;
    if (above(measured[1], limits_.max_avg_word_length)) return 4;
    if (above(measured[2], limits_.max_symbol_word_ratio)) return 5;
    if (above(measured[3], limits_.max_symbol_word_ratio)) return 6;
    if (above(measured[4], limits_.max_bullet_lines_ratio)) return 7;
    if (above(measured[5], limits_.max_ellipsis_lines_ratio)) return 8;
    if (below(measured[6], limits_.max_non_alpha_words_ratio)) return 9;
    if (below(measured[7], static_cast<double>(limits_.min_stop_words))) return 10;
    return 0;
  }

  GopherQualityLimits limits_;
  StopWords stop_words_;
};

}  // namespace

std::unique_ptr<Filter> make_gopher_quality(GopherQualityLimits limits) {
  return std::make_unique<GopherQuality>(std::move(limits));
}

}  // namespace krill::quality
