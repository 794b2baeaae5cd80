// The result of both readers: documents in Arrow's layout, where each one begins in the file, and counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "corpus/row_builder.hpp"
#include "growing_buffer.hpp"

namespace krill::corpus {

struct Counts {
  uint64_t records = 0;             // records seen, malformed ones included
  uint64_t malformed = 0;           // records skipped
  uint64_t key_seen = 0;            // records that have the text key
  uint64_t not_text = 0;            // null rows: the text key is missing or its value is not a string
  uint64_t oversize = 0;            // documents dropped
  uint64_t oversize_split = 0;      // documents split
  uint64_t surrogates_removed = 0;  // documents that lost lone surrogate escapes
};

struct DocumentBatch {
  Rows text;
  GrowingBuffer<uint64_t> starts;
  std::vector<Rows> carried;
  Counts counts;
};

// Thrown for a record that can't be read and must not be skipped.
struct MalformedRecord {
  uint64_t offset;  // the record's first byte
  uint64_t at;      // the offending byte
  std::string reason;
};

}  // namespace krill::corpus
