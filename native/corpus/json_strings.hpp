// Sinks for the strings of a JSON record, besides its text (text_value.hpp): keys to be recognised, values
// of carried columns, and everything else, which is only validated.
//
// All have the same three methods: append (bytes as they are in the file), append_escaped (one character that
// was written as an escape) and remove_surrogate. An append returns false when the record can't be kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "corpus/row_builder.hpp"

namespace krill::corpus {

using Bytes = std::vector<uint8_t>;

class IgnoredString {
 public:
  bool append(const uint8_t*, size_t, uint64_t) { return true; }
  bool append_escaped(const uint8_t*, size_t, uint64_t, uint64_t) { return true; }
  void remove_surrogate(uint64_t) {}
};

// A key, kept only while it may still be one of the wanted keys.
class KeyString {
 public:
  explicit KeyString(size_t longest) : longest_(longest) {}

  void begin() {
    bytes_.clear();
    possible_ = true;
  }
  bool append(const uint8_t* data, size_t size, uint64_t) {
    possible_ = possible_ && size <= longest_ - bytes_.size();
    if (possible_) bytes_.insert(bytes_.end(), data, data + size);
    return true;
  }
  bool append_escaped(const uint8_t* character, size_t size, uint64_t at, uint64_t) {
    return append(character, size, at);
  }
  // A key with a lone surrogate differs from the key without it.
  void remove_surrogate(uint64_t) { possible_ = false; }

  bool possible() const { return possible_; }
  const Bytes& bytes() const { return bytes_; }

 private:
  Bytes bytes_;
  size_t longest_;
  bool possible_ = false;
};

// A top-level value that becomes a carried column: strings unescaped, other values as their JSON text.
class CarriedValue {
 public:
  explicit CarriedValue(size_t limit) : limit_(limit) {}

  size_t bytes() const { return rows_.bytes(); }

  void clear() {
    rows_.discard_open();
    present_ = false;
  }
  void begin() {
    rows_.discard_open();
    present_ = true;
  }
  bool append(const uint8_t* data, size_t size, uint64_t) {
    if (size > limit_ - rows_.open_size()) return false;
    rows_.append(data, size);
    return true;
  }
  bool append_escaped(const uint8_t* character, size_t size, uint64_t at, uint64_t) {
    return append(character, size, at);
  }
  void remove_surrogate(uint64_t) {}

  // Fills the column up to `rows` rows with nulls.
  void catch_up(size_t rows) { rows_.finish_nulls(rows - rows_.rows()); }
  void finish_row() {
    if (present_) {
      rows_.finish_row(rows_.open_size());
    } else {
      rows_.finish_nulls(1);
    }
    present_ = false;
  }
  Rows take() { return rows_.take(); }

 private:
  size_t limit_;
  RowBuilder rows_;
  bool present_ = false;
};

}  // namespace krill::corpus
