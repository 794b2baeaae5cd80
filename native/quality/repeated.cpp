// Removes lines or paragraphs that occurred earlier in the same document. No document is dropped.
#include <algorithm>

#include "quality/filters.hpp"
#include "quality/lines.hpp"

namespace krill::quality {
namespace {

class RepeatedPieces final : public Filter {
 public:
  RepeatedPieces(Repeated kind, uint64_t min_chars)
      : kind_(kind), min_chars_(std::max<uint64_t>(min_chars, 1)) {}

  std::vector<std::string> reasons() const override { return {}; }
  std::vector<Statistic> statistics() const override {
    return {{kind_ == Repeated::lines ? "repeated_lines_removed" : "repeated_paragraphs_removed", true}};
  }

  unsigned scratch_parts() const override { return kLinesPart | kTextsPart; }

  size_t judge(Scratch& scratch, double* values) const override {
    const Document& document = scratch.document;
    const uint8_t* text = document.text();
    auto& pieces = scratch.lines;
    pieces.truncate(0);
    const auto gather = [&](Span piece) {
      const Span bare = stripped(text, piece);
      if (count_characters(text + bare.begin, bare.size) >= min_chars_) pieces.push_back(piece);
    };
    if (kind_ == Repeated::lines)
      split_at_each_newline(text, document.size(), gather);
    else
      split_at_newlines(text, document.size(), 2, gather);
    scratch.draft.truncate(0);
    size_t done = 0;  // what comes before was kept or taken out
    const Repeats repeats = find_repeats(text, pieces, scratch.table, [&](uint32_t number) {
      const size_t begin = separator_begin(text, pieces[number].begin);
      scratch.draft.append(text + done, begin - done);
      done = size_t{pieces[number].begin} + pieces[number].size;
    });
    if (values != nullptr) values[0] = static_cast<double>(repeats.pieces);
    if (repeats.pieces == 0) return 0;
    scratch.draft.append(text + done, document.size() - done);
    scratch.accept_draft({0, static_cast<uint32_t>(scratch.draft.size())});
    return 0;
  }

 private:
  // Where the newlines before a piece begin. What repeats is not the first piece, so that there are some.
  size_t separator_begin(const uint8_t* text, size_t piece) const {
    size_t begin = piece - 1;
    if (kind_ == Repeated::lines) return begin;
    while (begin > 0 && text[begin - 1] == '\n') --begin;
    return begin;
  }

  Repeated kind_;
  uint64_t min_chars_;  // blank pieces stay
};

}  // namespace

std::unique_ptr<Filter> make_repeated(Repeated kind, uint64_t min_chars) {
  return std::make_unique<RepeatedPieces>(kind, min_chars);
}

}  // namespace krill::quality
