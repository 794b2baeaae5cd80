// Gopher's rules for documents that repeat themselves: lines, paragraphs, and words in a row.
#include <algorithm>

#include "quality/filters.hpp"
#include "quality/lines.hpp"
#include "quality/n_grams.hpp"

namespace krill::quality {
namespace {

class GopherRepetition final : public Filter {
 public:
  explicit GopherRepetition(GopherRepetitionLimits limits) : limits_(std::move(limits)) {
    for (uint32_t i = 0; i < limits_.top_n_grams.size(); ++i) top_order_.push_back(i);
    std::stable_sort(top_order_.begin(), top_order_.end(), [this](uint32_t a, uint32_t b) {
      return limits_.top_n_grams[a].first < limits_.top_n_grams[b].first;
    });
    for (const auto& [n, limit] : limits_.dup_n_grams) shortest_ = std::min(shortest_, n);
  }

  std::vector<std::string> reasons() const override {
    std::vector<std::string> names{"gopher_empty", "gopher_dup_para_frac", "gopher_dup_para_char_frac",
                                   "gopher_dup_line_frac", "gopher_dup_line_char_frac"};
    for (const auto& [n, limit] : limits_.top_n_grams)
      names.push_back("gopher_top_" + std::to_string(n) + "_gram");
    for (const auto& [n, limit] : limits_.dup_n_grams)
      names.push_back("gopher_duplicated_" + std::to_string(n) + "_n_grams");
    return names;
  }

  std::vector<Statistic> statistics() const override {
    std::vector<Statistic> names{{"gopher_dup_paragraphs", false},
                                 {"gopher_dup_paragraph_chars", false},
                                 {"gopher_dup_lines", false},
                                 {"gopher_dup_line_chars", false}};
    for (const auto& [n, limit] : limits_.top_n_grams)
      names.push_back({"gopher_top_" + std::to_string(n) + "_gram", false});
    for (const auto& [n, limit] : limits_.dup_n_grams)
      names.push_back({"gopher_dup_" + std::to_string(n) + "_grams", false});
    return names;
  }

  unsigned scratch_parts() const override { return kWordsPart | kLinesPart | kNGramsPart; }

  size_t judge(Scratch& scratch, double* values) const override {
    if (scratch.document.size() == 0) return 1;
    double pieces[4];
    if (const size_t reason = judge_pieces(scratch, pieces)) return reason;
    if (values != nullptr) values = std::copy(pieces, pieces + 4, values);
    if (const size_t reason = judge_top(scratch, values)) return reason + 5;
    if (values != nullptr) values += limits_.top_n_grams.size();
    const size_t reason = judge_repeated(scratch, values);
    return reason == 0 ? 0 : reason + 5 + limits_.top_n_grams.size();
  }

 private:
  static bool above(double value, double limit) { return limit != 0 && value > limit; }

  // Paragraphs, then lines: the share that stood before, and the share of characters in those.
  size_t judge_pieces(Scratch& scratch, double* measured) const {
    const Document& document = scratch.document;
    const uint8_t* text = document.text();
    auto& pieces = scratch.lines;
    const Span whole = stripped(text, {0, static_cast<uint32_t>(document.size())});
    const auto gather = [&](const uint8_t* from, size_t size, size_t newlines) {
      pieces.truncate(0);
      split_at_newlines(from, size, newlines, [&](Span piece) { pieces.push_back(piece); });
      return find_repeats(from, pieces, scratch.table);
    };
    const Repeats paragraphs = gather(text + whole.begin, whole.size, 2);
    measured[0] = share(paragraphs.pieces, pieces.size());
    measured[1] = share(paragraphs.characters, document.characters());
    if (above(measured[0], limits_.dup_para_frac)) return 2;
    if (above(measured[1], limits_.dup_para_char_frac)) return 3;
    const Repeats lines = gather(text, document.size(), 1);
    measured[2] = share(lines.pieces, pieces.size());
    measured[3] = share(lines.characters, document.characters());
    if (above(measured[2], limits_.dup_line_frac)) return 4;
    if (above(measured[3], limits_.dup_line_char_frac)) return 5;
    return 0;
  }

  // The number of the first entry, from 1, that is violated. They are counted in the order of n.
  size_t judge_top(Scratch& scratch, double* values) const {
    const Words& words = scratch.document.words();
    if (values == nullptr && is_below_all(scratch)) return 0;
    TopNGrams grams(scratch);
    size_t violated = 0;
    for (const uint32_t i : top_order_) {
      const auto& [n, limit] = limits_.top_n_grams[i];
      double measured = 0;
      if (words.count() >= n) {
        const TopNGram top = grams.most_frequent(n);
        const uint8_t* text = words.at(top.word);
        // The words are joined by single spaces.
        const size_t characters =
            count_characters(text, words.begin(top.word + n) - words.begin(top.word)) + n - 1;
        measured = share(characters * top.count, scratch.document.characters());
        if (measured > limit) violated = violated == 0 ? i + 1 : std::min<size_t>(violated, i + 1);
      }
      if (values != nullptr) values[i] = measured;
    }
    return violated;
  }

  // Whether the bounds already show that no most frequent n-gram is above its limit.
  bool is_below_all(Scratch& scratch) const {
    NGramBounds bounds(scratch);
    return std::ranges::all_of(top_order_, [&](uint32_t i) {
      const auto& [n, limit] = limits_.top_n_grams[i];
      return scratch.document.words().count() < n ||
             share(bounds.bytes(n), scratch.document.characters()) <= limit;
    });
  }

  size_t judge_repeated(Scratch& scratch, double* values) const {
    if (limits_.dup_n_grams.empty()) return 0;
    RepeatedNGrams grams(scratch, shortest_);
    for (size_t i = 0; i < limits_.dup_n_grams.size(); ++i) {
      const auto& [n, limit] = limits_.dup_n_grams[i];
      const double measured = share(grams.characters(n), scratch.document.characters());
      if (measured > limit) return i + 1;
      if (values != nullptr) values[i] = measured;
    }
    return 0;
  }

  GopherRepetitionLimits limits_;
  std::vector<uint32_t> top_order_;  // entries of top_n_grams by rising n
  uint32_t shortest_ = UINT32_MAX;
};

}  // namespace

std::unique_ptr<Filter> make_gopher_repetition(GopherRepetitionLimits limits) {
  return std::make_unique<GopherRepetition>(std::move(limits));
}

}  // namespace krill::quality
