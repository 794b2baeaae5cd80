// The interface of quality filters: a filter names its reasons for dropping documents and its statistics, and
// judges one document at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "growing_buffer.hpp"
#include "quality/document.hpp"
#include "quality/index_table.hpp"

namespace krill::quality {

// A statistic: counts fit uint32, everything else is a ratio.
struct Statistic {
  std::string name;
  bool is_count;
};

// Which parts of the scratch a filter uses.
enum ScratchPart : unsigned {
  kWordsPart = 1,   // a byte for each byte of text, and at most 6 for each of the words that are kept
  kLinesPart = 2,   // at most 12 bytes for each line, and 6 of the table; lines have at least two bytes
  kNGramsPart = 4,  // 12 bytes for each of the words that are kept, and 6 of the same table
  kTextsPart = 8,   // three copies of the text, each with at most half as much to spare
};

// Counts of lines kept and dropped, by datatrove's names; only C4 judges lines.
enum LineFate : size_t {
  kLineTotal,
  kLineTooLongWord,
  kLineNoTerminalPunct,
  kLineTooFewWords,
  kLineJavascript,
  kLinePolicy,
  kLineKept,
};
inline constexpr const char* kLineFates[] = {"line-total",
                                             "line-filter-too_long_word",
                                             "line-filter-no_terminal_punc",
                                             "line-filter-too_few_words",
                                             "line-filter-javascript",
                                             "line-filter-policy",
                                             "line-kept"};
using LineCounts = std::array<uint64_t, std::size(kLineFates)>;

// Scratch memory of filters, one for each thread; reused from one document to the next.
struct Scratch {
  Document document;
  GrowingBuffer<uint8_t> rewritten;  // the document's text after the last filter that changed it
  GrowingBuffer<uint8_t> draft;      // the text that the current filter is writing
  GrowingBuffer<uint8_t> lowered;    // one line in lower case
  GrowingBuffer<Span> lines;
  GrowingBuffer<uint32_t> grams;  // these three have a number for each word
  GrowingBuffer<uint32_t> longer_grams;
  GrowingBuffer<uint32_t> counts;
  IndexTable table;
  LineCounts line_counts{};

  // The draft, or a part of it, is the document's text from now on.
  void accept_draft(Span part) {
    draft.push_back(0);  // so that an empty text has an address too
    std::swap(rewritten, draft);
    document.assign(rewritten.data() + part.begin, part.size);
  }
};

// Frozen and shared by all threads.
class Filter {
 public:
  virtual ~Filter() = default;
  virtual std::vector<std::string> reasons() const = 0;
  virtual std::vector<Statistic> statistics() const = 0;
  virtual unsigned scratch_parts() const = 0;
  // 0, or k to drop the document for reasons()[k - 1]. With `values`, all statistics of a document that is
  // kept are written there; without, nothing is measured that does not decide.
  virtual size_t judge(Scratch& scratch, double* values) const = 0;
};

// Python's true division of two numbers below 2^53.
inline double share(size_t part, size_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace krill::quality
