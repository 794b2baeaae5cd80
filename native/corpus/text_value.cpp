#include "corpus/text_value.hpp"

#include <algorithm>
#include <utility>

#include "corpus/oversize.hpp"

namespace krill::corpus {

TextValue::TextValue(size_t limit, bool drop_oversize)
    : limit_(checked_document_limit(limit)), drop_oversize_(drop_oversize) {}

void TextValue::begin_record(uint64_t record_start) {
  piece_start_ = record_start;
  split_ = false;
  begin_string();
}

void TextValue::begin_string() {
  rows_.discard_open();
  // The bytes whose places are remembered are always the last ones below the limit.
  easy_ = limit_ > recent_.size() ? limit_ - recent_.size() : 0;
  piece_begin_ = 0;
  paragraph_ = line_ = {};
  dropped_ = surrogates_removed_ = false;
}

// Byte by byte close to the limit; the i-th byte is written in the file at `at` + i * stride.
void TextValue::append_near_limit(const uint8_t* data, size_t size, uint64_t at, uint64_t stride) {
  while (size > 0 && !dropped_) {
    size_t part = 1;
    if (rows_.open_size() < easy_) {
      part = std::min(size, easy_ - rows_.open_size());
      rows_.append(data, part);
    } else {
      recent_[gathered() % recent_.size()] = at;
      rows_.push(*data);
    }
    data += part;
    size -= part;
    at += part * stride;
    if (rows_.open_size() > limit_) cut_oversize();
  }
}

void TextValue::cut_oversize() {
  if (drop_oversize_) {
    rows_.discard_open();
    dropped_ = true;
    easy_ = 0;  // whatever follows takes the slow path, where it is ignored
    return;
  }
  const Place cut = cut_place();
  rows_.finish_row(static_cast<size_t>(cut.text - piece_begin_));
  starts_.push_back(piece_start_);
  piece_begin_ = cut.text;
  piece_start_ = cut.file;
  split_ = true;
}

TextValue::Place TextValue::cut_place() const {
  if (paragraph_.text > piece_begin_) return paragraph_;
  if (line_.text > piece_begin_) return line_;
  const uint64_t text = piece_begin_ + character_border(rows_.open_data(), limit_);
  return {text, recent_[text % recent_.size()]};
}

void TextValue::note_newline(uint64_t behind) {
  if (dropped_) return;
  line_ = {gathered(), behind};
  const size_t size = rows_.open_size();
  if (size > 1 && rows_.open_data()[size - 2] == '\n') paragraph_ = line_;
}

void TextValue::remove_surrogate(uint64_t behind) {
  surrogates_removed_ = true;
  if (line_.text == gathered()) line_.file = behind;
  if (paragraph_.text == gathered()) paragraph_.file = behind;
}

void TextValue::finish_document() {
  rows_.finish_row(rows_.open_size());
  starts_.push_back(piece_start_);
}

void TextValue::finish_null() {
  rows_.finish_nulls(1);
  starts_.push_back(piece_start_);
}

GrowingBuffer<uint64_t> TextValue::take_starts() {
  starts_.shrink_to_fit();
  return std::exchange(starts_, {});
}

}  // namespace krill::corpus
