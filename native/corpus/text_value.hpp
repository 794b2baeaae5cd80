// The text of a JSON record while it is gathered, and the rows it becomes.
//
// Escapes make the text shorter than its bytes in the file, so the file offset of a piece can't be computed
// from its length. Instead the only positions where a cut can fall are noted as they pass: the last paragraph
// break, the last line break, and the bytes just below the limit: a few words of memory at any length.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "corpus/row_builder.hpp"
#include "growing_buffer.hpp"

namespace krill::corpus {

class TextValue {
 public:
  TextValue(size_t limit, bool drop_oversize);

  // A record begins at `record_start`, which is reported as the start of its document or first piece.
  void begin_record(uint64_t record_start);
  // A string begins; an earlier one of the same record is forgotten.
  void begin_string();

  // Bytes as they are in the file, from offset `at` on.
  bool append(const uint8_t* data, size_t size, uint64_t at) {
    if (rows_.open_size() + size <= easy_) [[likely]] {
      rows_.append(data, size);
    } else {
      append_near_limit(data, size, at, 1);
    }
    return true;
  }

  // One character that is written in the file as an escape, from `at` to `behind`.
  bool append_escaped(const uint8_t* character, size_t size, uint64_t at, uint64_t behind) {
    if (rows_.open_size() + size <= easy_) [[likely]] {
      rows_.append(character, size);
    } else {
      append_near_limit(character, size, at, 0);
    }
    if (*character == '\n') note_newline(behind);
    return true;
  }

  // An escape that ends at `behind` was left out.
  void remove_surrogate(uint64_t behind);

  void finish_document();
  void finish_null();
  void discard_open() { rows_.discard_open(); }

  bool dropped() const { return dropped_; }  // the string is over the limit and is dropped
  bool split() const { return split_; }      // pieces of this record were emitted
  bool surrogates_removed() const { return surrogates_removed_; }

  size_t rows() const { return rows_.rows(); }
  size_t bytes() const { return rows_.bytes(); }
  Rows take_rows() { return rows_.take(); }
  GrowingBuffer<uint64_t> take_starts();

 private:
  // A position in the string: how many of its bytes come before, and the file offset of the next one.
  struct Place {
    uint64_t text = 0;
    uint64_t file = 0;
  };

  void append_near_limit(const uint8_t* data, size_t size, uint64_t at, uint64_t stride);
  void cut_oversize();
  Place cut_place() const;
  void note_newline(uint64_t behind);
  uint64_t gathered() const { return piece_begin_ + rows_.open_size(); }

  RowBuilder rows_;
  GrowingBuffer<uint64_t> starts_;
  const size_t limit_;
  const bool drop_oversize_;

  size_t easy_ = 0;           // up to this size a piece needs no notes
  uint64_t piece_begin_ = 0;  // the open piece's first byte, counted in bytes of the string
  uint64_t piece_start_ = 0;  // the same in the file (of a first piece: the record's first byte)
  Place paragraph_;
  Place line_;
  // File offsets of the last bytes near the limit, by gathered() % 8.
  std::array<uint64_t, 8> recent_{};
  bool dropped_ = false;
  bool split_ = false;
  bool surrogates_removed_ = false;
};

}  // namespace krill::corpus
