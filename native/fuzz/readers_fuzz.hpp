// Drives both readers with settings and cuts taken from the input, and aborts where they break their word:
// rows are well-formed, starts rise, the limit holds, and feeds cut anywhere give what one feed gives.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "corpus/json_reader.hpp"
#include "corpus/text_reader.hpp"

namespace krill::fuzz {

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "readers: %s\n", what);
  std::abort();
}

// The first bytes of the input are settings; reading beyond the end gives zeros.
class Settings {
 public:
  Settings(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  uint8_t next() { return used_ < size_ ? data_[used_++] : 0; }
  bool flag() { return (next() & 1) != 0; }
  const uint8_t* rest() const { return data_ + used_; }
  size_t rest_size() const { return size_ - used_; }

 private:
  const uint8_t* data_;
  size_t size_;
  size_t used_ = 0;
};

// All that a file gave, put together from its batches.
struct Outcome {
  std::vector<std::optional<std::string>> texts;
  std::vector<std::vector<std::optional<std::string>>> carried;
  std::vector<uint64_t> starts;
  std::vector<uint64_t> counts = std::vector<uint64_t>(7, 0);
  std::optional<std::string> fault;

  bool operator==(const Outcome&) const = default;
};

inline void add_rows(std::vector<std::optional<std::string>>& cells, const corpus::Rows& rows, size_t limit) {
  const size_t count = rows.null_mask.size();
  require(rows.offsets.size() == count + 1, "offsets are not rows + 1");
  require(rows.offsets[0] == 0, "offsets do not begin at 0");
  require(static_cast<size_t>(rows.offsets[count]) == rows.bytes.size(),
          "offsets do not end at the data's end");
  for (size_t row = 0; row < count; ++row) {
    require(rows.offsets[row] <= rows.offsets[row + 1], "offsets fall");
    const size_t size = static_cast<size_t>(rows.offsets[row + 1] - rows.offsets[row]);
    require(size <= limit, "a row is longer than max_document_bytes");
    if (rows.null_mask[row] != 0) {
      require(size == 0, "a null row has bytes");
      cells.emplace_back();
    } else {
      cells.emplace_back(
          std::string(reinterpret_cast<const char*>(rows.bytes.data()) + rows.offsets[row], size));
    }
  }
}

template <class Reader>
void take_into(Outcome& outcome, Reader& reader, size_t limit) {
  const corpus::DocumentBatch batch = reader.take();
  add_rows(outcome.texts, batch.text, limit);
  outcome.carried.resize(batch.carried.size());
  for (size_t i = 0; i < batch.carried.size(); ++i) {
    require(batch.carried[i].null_mask.size() == batch.text.null_mask.size(), "a carried column lacks rows");
    add_rows(outcome.carried[i], batch.carried[i], limit);
  }
  require(batch.starts.size() == batch.text.null_mask.size(), "a row lacks its start");
  for (size_t i = 0; i < batch.starts.size(); ++i) {
    require(outcome.starts.empty() || outcome.starts.back() < batch.starts[i], "starts do not rise");
    outcome.starts.push_back(batch.starts[i]);
  }
  const corpus::Counts& counts = batch.counts;
  const uint64_t values[] = {counts.records,           counts.malformed, counts.key_seen,
                             counts.not_text,          counts.oversize,  counts.oversize_split,
                             counts.surrogates_removed};
  for (size_t i = 0; i < std::size(values); ++i) outcome.counts[i] += values[i];
}

// Feeds `data` in pieces of the given sizes, over and over, with a take behind each; without sizes, at once.
// Each piece is a copy of its own size, so that a sanitizer sees a read beyond it.
template <class Reader>
Outcome drive(Reader reader, const uint8_t* data, size_t size, uint64_t offset, size_t limit,
              const std::vector<size_t>& sizes) {
  Outcome outcome;
  try {
    for (size_t begin = 0, turn = 0; begin < size; ++turn) {
      const size_t part = sizes.empty() ? size : std::min(sizes[turn % sizes.size()], size - begin);
      const std::vector<uint8_t> piece(data + begin, data + begin + part);
      reader.feed(piece.data(), piece.size(), offset + begin);
      begin += part;
      if (sizes.empty()) continue;
      take_into(outcome, reader, limit);
      // What is left is open: one text and two carried values at most.
      require(reader.pending_bytes() <= 3 * limit, "more is held than the limit allows");
    }
    reader.finish();
  } catch (const corpus::MalformedRecord& fault) {
    require(fault.offset <= fault.at, "a fault lies before its record");
    require(fault.at <= offset + size, "a fault lies behind the file");
    outcome.fault = std::to_string(fault.offset) + " " + std::to_string(fault.at) + " " + fault.reason;
  }
  take_into(outcome, reader, limit);
  if (!outcome.fault)
    require(reader.pending_bytes() == 0 && reader.complete(), "something is left at the end");
  return outcome;
}

inline std::vector<size_t> cut_sizes(Settings& settings) {
  std::vector<size_t> sizes(1 + settings.next() % 4);
  for (size_t& size : sizes) size = 1 + settings.next() % 40;
  return sizes;
}

inline void fuzz_json_reader(Settings settings) {
  const corpus::Bytes text_key = {'t', 'e', 'x', 't'};
  corpus::JsonOptions options{.text_key = settings.flag() ? text_key : corpus::Bytes{},
                              .carry = {{'i', 'd'}, {'n'}},
                              .max_document_bytes = size_t{4} + settings.next() % 80,
                              .drop_oversize = settings.flag(),
                              .skip_malformed = settings.flag(),
                              .array = settings.flag()};
  options.whole = options.drop_oversize && settings.flag();
  const size_t limit = options.max_document_bytes;
  const uint64_t offset = settings.flag() ? 0 : 1000;
  const std::vector<size_t> sizes = cut_sizes(settings);
  const uint8_t* data = settings.rest();
  const size_t size = settings.rest_size();
  const Outcome at_once = drive(corpus::JsonReader(options), data, size, offset, limit, {});
  const Outcome in_parts = drive(corpus::JsonReader(options), data, size, offset, limit, sizes);
  require(at_once == in_parts, "the cuts between feeds show in the records");
}

inline void fuzz_text_reader(Settings settings) {
  const size_t limit = size_t{4} + settings.next() % 80;
  const bool drop_oversize = settings.flag();
  const uint64_t offset = settings.flag() ? 0 : 1000;
  corpus::Bytes separator(settings.next() % 6);
  for (uint8_t& byte : separator) byte = settings.next();
  const corpus::TextOptions options{separator, limit, drop_oversize};
  const std::vector<size_t> sizes = cut_sizes(settings);
  const uint8_t* data = settings.rest();
  const size_t size = settings.rest_size();
  const Outcome at_once = drive(corpus::TextReader(options), data, size, offset, limit, {});
  const Outcome in_parts = drive(corpus::TextReader(options), data, size, offset, limit, sizes);
  require(!at_once.fault && at_once == in_parts, "the cuts between feeds show in the documents");
}

inline void fuzz_readers(const uint8_t* data, size_t size) {
  fuzz_json_reader(Settings(data, size));
  fuzz_text_reader(Settings(data, size));
}

}  // namespace krill::fuzz
