// The quality filters and their thresholds. Names, defaults and decisions are datatrove's; see
// krill.config.filters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "quality/filter.hpp"

namespace krill::quality {

// A threshold of 0 turns its rule off.
struct GopherQualityLimits {
  uint64_t min_doc_words;
  uint64_t max_doc_words;
  double min_avg_word_length;
  double max_avg_word_length;
  double max_symbol_word_ratio;
  double max_bullet_lines_ratio;
  double max_ellipsis_lines_ratio;
  double max_non_alpha_words_ratio;
  uint64_t min_stop_words;
  std::vector<std::string> stop_words;
};

// A threshold of 0 turns its rule off, but for n-grams.
struct GopherRepetitionLimits {
  using NGrams = std::vector<std::pair<uint32_t, double>>;
  double dup_line_frac;
  double dup_para_frac;
  double dup_line_char_frac;
  double dup_para_char_frac;
  NGrams top_n_grams;
  NGrams dup_n_grams;
};

struct C4Rules {
  bool split_paragraph;
  bool remove_citations;
  bool filter_no_terminal_punct;
  uint64_t min_num_sentences;
  uint64_t min_words_per_line;
  uint64_t max_word_length;
  bool filter_lorem_ipsum;
  bool filter_javascript;
  bool filter_curly_bracket;
  bool filter_policy;
};

struct FineWebLimits {
  double line_punct_thr;
  bool line_punct_exclude_zero;
  std::optional<std::vector<std::string>> stop_chars;  // without, terminal punctuation of every script
  double short_line_thr;
  uint64_t short_line_length;
  double char_duplicates_ratio;
  double new_line_ratio;
};

struct LengthLimits {
  static constexpr uint64_t kNone = UINT64_MAX;
  uint64_t min_words;
  uint64_t max_words;
  uint64_t max_chars;
};

enum class Repeated { lines, paragraphs };

std::unique_ptr<Filter> make_gopher_quality(GopherQualityLimits limits);
std::unique_ptr<Filter> make_gopher_repetition(GopherRepetitionLimits limits);
std::unique_ptr<Filter> make_c4(C4Rules rules);
std::unique_ptr<Filter> make_fineweb(FineWebLimits limits);
std::unique_ptr<Filter> make_repeated(Repeated kind, uint64_t min_chars);
std::unique_ptr<Filter> make_lengths(LengthLimits limits);

}  // namespace krill::quality
