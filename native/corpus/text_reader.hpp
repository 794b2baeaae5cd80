// Push parser of plain text: bytes of one file in, documents out.
//
// A document is the text between separators, or the whole file if the separator is empty. Empty pieces are
// ignored. Bytes are kept verbatim. Held in memory: the documents gathered since the last take(), of which
// the open one is never longer than max_document_bytes + 1: longer ones are split or dropped (oversize.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "corpus/document_batch.hpp"
#include "corpus/input_stream.hpp"
#include "corpus/row_builder.hpp"

namespace krill::corpus {

struct TextOptions {
  std::vector<uint8_t> separator;
  size_t max_document_bytes;
  bool drop_oversize;
};

class TextReader {
 public:
  explicit TextReader(TextOptions options);

  // Another file follows the one that was finished; its offsets begin at `base`. Rows are gathered on.
  void begin_file(uint64_t base) { stream_ = InputStream(base); }
  // The next bytes of the file; `offset` is the position of the first one and continues the previous feed.
  void feed(const uint8_t* data, size_t size, uint64_t offset);
  // The end of the file: the open document ends.
  void finish();
  // The documents that have ended, and the split pieces of the open one; the open one stays.
  DocumentBatch take();

  const Counts& counts() const { return counts_; }  // since the last take()
  size_t pending_bytes() const { return text_.bytes(); }
  bool complete() const { return !open_ && matched_ == 0 && !stream_.holds_bytes(); }

 private:
  void consume(const uint8_t* data, size_t size, uint64_t offset);
  size_t continue_separator(const uint8_t* data, size_t size, uint64_t offset);
  size_t longest_prefix_at_end(const uint8_t* data, size_t size) const;
  void gather(const uint8_t* data, size_t size, uint64_t offset);
  void cut_oversize();
  void end_document();

  TextOptions options_;
  // Of each prefix of the separator, the length of its longest proper border (Knuth, Morris, Pratt).
  std::vector<size_t> fallback_;
  InputStream stream_;
  RowBuilder text_;
  GrowingBuffer<uint64_t> starts_;
  Counts counts_;

  size_t matched_ = 0;        // bytes of a possible separator, held back until it is decided
  uint64_t piece_start_ = 0;  // of the open document, or of its open piece
  bool open_ = false;         // the open document has bytes
  bool split_ = false;        // pieces of the open document were emitted
  bool dropped_ = false;      // the open document is over the limit and is dropped
};

}  // namespace krill::corpus
