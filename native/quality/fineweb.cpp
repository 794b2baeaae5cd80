// FineWeb's rules for lists, menus and boilerplate.
#include <string>
#include <utility>

#include "quality/filters.hpp"
#include "quality/lines.hpp"

namespace krill::quality {
namespace {

class FineWeb final : public Filter {
 public:
  explicit FineWeb(FineWebLimits limits) : limits_(std::move(limits)) {}

  std::vector<std::string> reasons() const override {
    return {"fineweb_empty", "fineweb_line_punct_ratio", "fineweb_short_line_ratio", "fineweb_char_dup_ratio",
            "fineweb_list_ratio"};
  }

  std::vector<Statistic> statistics() const override {
    return {{"fineweb_line_punct_ratio", false},
            {"fineweb_short_line_ratio", false},
            {"fineweb_char_dup_ratio", false},
            {"fineweb_list_ratio", false}};
  }

  unsigned scratch_parts() const override { return kWordsPart | kLinesPart; }

  size_t judge(Scratch& scratch, double* values) const override {
    Document& document = scratch.document;
    const uint8_t* text = document.text();
    auto& lines = scratch.lines;
    lines.truncate(0);
    size_t pieces = 0;
    size_t punctuated = 0;
    size_t short_lines = 0;
    split_at_each_newline(text, document.size(), [&](Span line) {
      ++pieces;
      const uint8_t* begin = text + line.begin;
      if (is_blank(begin, line.size)) return;
      lines.push_back(line);
      punctuated += ends_with_stop(begin, line.size);
      // Bytes are at least as many as characters, and at most four times as many.
      short_lines += line.size <= limits_.short_line_length ||
                     (line.size / 4 <= limits_.short_line_length &&
                      count_characters(begin, line.size) <= limits_.short_line_length);
    });
    if (lines.size() == 0) return 1;
    const double punct_ratio = share(punctuated, lines.size());
    if (punct_ratio < limits_.line_punct_thr && !(punctuated == 0 && limits_.line_punct_exclude_zero))
      return 2;
    const double short_ratio = share(short_lines, lines.size());
    if (short_ratio > limits_.short_line_thr) return 3;
    const size_t newlines = pieces - 1;
    const Repeats repeats = find_repeats(text, lines, scratch.table);
    const double repeat_ratio = share(repeats.characters, document.characters() - newlines);
    if (repeat_ratio > limits_.char_duplicates_ratio) return 4;
    const double list_ratio = share(newlines, document.words().total());
    if (list_ratio > limits_.new_line_ratio) return 5;
    if (values != nullptr) {
      values[0] = punct_ratio;
      values[1] = short_ratio;
      values[2] = repeat_ratio;
      values[3] = list_ratio;
    }
    return 0;
  }

 private:
  bool ends_with_stop(const uint8_t* line, size_t size) const {
    if (!limits_.stop_chars) return (traits_of(character_before(line, size).point) & kTerminal) != 0;
    for (const std::string& stop : *limits_.stop_chars)
      if (view(line, size).ends_with(stop)) return true;
    return false;
  }

  FineWebLimits limits_;
};

}  // namespace

std::unique_ptr<Filter> make_fineweb(FineWebLimits limits) {
  return std::make_unique<FineWeb>(std::move(limits));
}

}  // namespace krill::quality
