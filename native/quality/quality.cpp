#include "quality/quality.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace krill::quality {
namespace {

constexpr size_t kMostReasons = 255;  // a code is a byte
constexpr size_t kMostStatistics = 512;

RewrittenText begin_rewriting(const text::TextColumn& documents, size_t row) {
  RewrittenText text{Buffer<int64_t>(documents.rows + 1), {}};
  for (size_t i = 0; i <= row; ++i) text.offsets[i] = documents.offsets[i] - documents.offsets[0];
  text.data.append(documents.begin(0), static_cast<size_t>(text.offsets[row]));
  return text;
}

}  // namespace

Quality::Quality(std::vector<std::unique_ptr<Filter>> filters) : filters_(std::move(filters)) {
  for (const auto& filter : filters_) {
    codes_.emplace_back();
    first_statistic_.push_back(statistics_.size());
    for (std::string& reason : filter->reasons()) codes_.back().push_back(code_of(std::move(reason)));
    for (Statistic& statistic : filter->statistics()) statistics_.push_back(std::move(statistic));
  }
  if (reasons_.size() > kMostReasons) throw std::invalid_argument("the filters have more than 255 reasons");
  if (statistics_.size() > kMostStatistics)
    throw std::invalid_argument("the filters measure more than 512 things");
}

// A filter that stands twice has its reasons once.
size_t Quality::code_of(std::string reason) {
  const auto known = std::find(reasons_.begin(), reasons_.end(), reason);
  const auto code = static_cast<size_t>(known - reasons_.begin()) + 1;
  if (known == reasons_.end()) reasons_.push_back(std::move(reason));
  return code;
}

size_t Quality::judge_one(Scratch& scratch, double* values) const {
  for (size_t i = 0; i < filters_.size(); ++i) {
    double* own_values = values == nullptr ? nullptr : values + first_statistic_[i];
    if (const size_t reason = filters_[i]->judge(scratch, own_values)) return codes_[i][reason - 1];
  }
  return 0;
}

size_t Quality::scratch_of(size_t size, size_t words, size_t lines) const {
  unsigned parts = 0;
  for (const auto& filter : filters_) parts |= filter->scratch_parts();
  size_t bytes = 0;
  size_t in_table = 0;
  if (parts & kWordsPart) bytes += size + 6 * words;
  if (parts & kLinesPart) bytes += 12 * lines, in_table = lines;
  if (parts & kNGramsPart) bytes += 12 * words, in_table = std::max(in_table, words);
  if (parts & kTextsPart) bytes += size * 9 / 2;
  return bytes + 6 * in_table;
}

size_t Quality::scratch_bytes(size_t max_document_bytes, size_t threads) const {
  const auto most = [this](size_t size) { return scratch_of(size, std::min(size, Words::kMost), size / 2); };
  const size_t small = threads * most(std::min(max_document_bytes, kLargeDocument));
  return max_document_bytes <= kLargeDocument ? small : small + most(max_document_bytes);
}

size_t Quality::expected_bytes(size_t document_bytes) const {
  return scratch_of(document_bytes, document_bytes / 5, document_bytes / 32);
}

void Quality::add(const LineCounts& counts) const {
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) line_counts_[i].fetch_add(counts[i], std::memory_order_relaxed);
}

LineCounts Quality::take_line_counts() const {
  LineCounts taken;
  for (size_t i = 0; i < taken.size(); ++i) taken[i] = line_counts_[i].exchange(0, std::memory_order_relaxed);
  return taken;
}

// The document is left as it is to be kept, for as long as the scratch is not used again.
void Quality::judge_row(const text::TextColumn& documents, size_t row, Scratch& scratch,
                        Verdicts& verdicts) const {
  constexpr uint8_t kNothing = 0;
  const size_t size = documents.size(row);
  const uint8_t* text = size == 0 ? &kNothing : documents.begin(row);
  scratch.document.assign(text, size);
  double values[kMostStatistics];
  const bool statistics = !verdicts.values.empty();
  const size_t code = judge_one(scratch, statistics ? values : nullptr);
  verdicts.codes[row] = static_cast<uint8_t>(code);
  for (size_t i = 0; code == 0 && i < verdicts.values.size(); ++i) verdicts.values[i][row] = values[i];
  const Document& left = scratch.document;
  const bool changed = code == 0 && left.text() != text;
  if (changed && !verdicts.text) verdicts.text.emplace(begin_rewriting(documents, row));
  if (!verdicts.text) return;
  if (changed)
    verdicts.text->data.append(left.text(), left.size());
  else
    verdicts.text->data.append(text, size);
  verdicts.text->offsets[row + 1] = static_cast<int64_t>(verdicts.text->data.size());
}

Verdicts Quality::judge(const text::TextColumn& documents, bool statistics) const {
  Verdicts verdicts{Buffer<uint8_t>(documents.rows), {}, std::nullopt};
  if (statistics)
    for (size_t i = 0; i < statistics_.size(); ++i)
      verdicts.values.push_back(Buffer<double>::zeros(documents.rows));
  Scratch own;
  for (size_t row = 0; row < documents.rows; ++row) {
    if (documents.size(row) <= kLargeDocument) {
      judge_row(documents, row, own, verdicts);
    } else {
      const std::scoped_lock one_at_a_time(large_);
      Scratch large;
      judge_row(documents, row, large, verdicts);
      add(large.line_counts);
    }
  }
  add(own.line_counts);
  if (verdicts.text) verdicts.text->data.shrink_to_fit();
  return verdicts;
}

}  // namespace krill::quality
