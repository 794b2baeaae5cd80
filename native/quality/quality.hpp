// Quality filters in a row, over a column of documents.
//
// In: UTF-8 texts. Out: for each document 0 or the reason for dropping it, the statistics, and the texts if a
// filter has changed some. Held in memory: the results, and scratch that grows with the longest
// document. Documents above `kLargeDocument` are judged one at a time, whatever the number of threads, and
// their scratch is given back, so that only one scratch is ever large.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "buffer.hpp"
#include "growing_buffer.hpp"
#include "quality/filter.hpp"
#include "text/column.hpp"

namespace krill::quality {

constexpr size_t kLargeDocument = 256 * 1024;  // bytes

struct RewrittenText {
  Buffer<int64_t> offsets;  // rows + 1 of them, from 0
  GrowingBuffer<uint8_t> data;
};

struct Verdicts {
  Buffer<uint8_t> codes;               // 0 keeps, k drops for reasons()[k - 1]
  std::vector<Buffer<double>> values;  // a column for each statistic; 0 for documents that are dropped
  std::optional<RewrittenText> text;   // if any was changed; those that are dropped are as they came
};

// Immutable except for its counts; any thread may use it.
class Quality {
 public:
  explicit Quality(std::vector<std::unique_ptr<Filter>> filters);
  Quality(const Quality&) = delete;
  Quality& operator=(const Quality&) = delete;

  const std::vector<std::string>& reasons() const { return reasons_; }
  const std::vector<Statistic>& statistics() const { return statistics_; }

  // The most scratch memory of all threads together, if no document is longer than that.
  size_t scratch_bytes(size_t max_document_bytes, size_t threads) const;

  // What a document of that size is likely to need, with four bytes to a word and 32 to a line.
  size_t expected_bytes(size_t document_bytes) const;

  // The column must have been checked.
  Verdicts judge(const text::TextColumn& documents, bool statistics) const;

  // Counts of lines since the last call.
  LineCounts take_line_counts() const;

 private:
  void add(const LineCounts& counts) const;
  size_t code_of(std::string reason);
  size_t scratch_of(size_t size, size_t words, size_t lines) const;
  size_t judge_one(Scratch& scratch, double* values) const;
  void judge_row(const text::TextColumn& documents, size_t row, Scratch& scratch, Verdicts& verdicts) const;

  std::vector<std::unique_ptr<Filter>> filters_;
  std::vector<std::string> reasons_;
  std::vector<Statistic> statistics_;
  std::vector<std::vector<size_t>> codes_;  // of each filter's reasons
  std::vector<size_t> first_statistic_;     // of each filter, among all
  mutable std::mutex large_;
  mutable std::array<std::atomic<uint64_t>, std::tuple_size_v<LineCounts>> line_counts_{};
};

}  // namespace krill::quality
