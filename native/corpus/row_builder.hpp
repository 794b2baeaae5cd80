// A column of byte strings under construction, in Arrow's layout: finished rows, then one open value.
//
// The open value grows at the end of the same memory as the finished rows, so finishing a row copies nothing,
// and taking the finished rows copies only the open value (bounded by the reader's document limit).
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "growing_buffer.hpp"

namespace krill::corpus {

struct Rows {
  GrowingBuffer<int64_t> offsets;  // rows + 1
  GrowingBuffer<uint8_t> bytes;
  GrowingBuffer<uint8_t> null_mask;  // 1 = null

  void shrink_to_fit() {
    offsets.shrink_to_fit();
    bytes.shrink_to_fit();
    null_mask.shrink_to_fit();
  }
};

class RowBuilder {
 public:
  RowBuilder() { offsets_.push_back(0); }

  size_t rows() const { return nulls_.size(); }
  size_t bytes() const { return bytes_.size(); }

  size_t open_size() const { return bytes_.size() - finished_; }
  const uint8_t* open_data() const { return bytes_.data() + finished_; }

  void append(const uint8_t* data, size_t size) { bytes_.append(data, size); }
  void push(uint8_t byte) { bytes_.push_back(byte); }
  void discard_open() { bytes_.truncate(finished_); }

  // The first `size` bytes of the open value become a row; the rest stays open.
  void finish_row(size_t size) {
    finished_ += size;
    offsets_.push_back(static_cast<int64_t>(finished_));
    nulls_.push_back(0);
  }

  // Null rows in front of the open value, which stays open.
  void finish_nulls(size_t count) {
    offsets_.append_repeated(static_cast<int64_t>(finished_), count);
    nulls_.append_repeated(1, count);
  }

  // Hands the finished rows over; the open value goes on in fresh memory, unless there are none.
  Rows take() {
    if (rows() == 0) return none();
    GrowingBuffer<uint8_t> open;
    open.append(open_data(), open_size());
    GrowingBuffer<int64_t> offsets;
    offsets.push_back(0);
    discard_open();
    finished_ = 0;
    Rows taken{std::exchange(offsets_, std::move(offsets)), std::exchange(bytes_, std::move(open)),
               std::exchange(nulls_, {})};
    taken.shrink_to_fit();
    return taken;
  }

 private:
  static Rows none() {
    Rows taken;
    taken.offsets.push_back(0);
    taken.shrink_to_fit();
    return taken;
  }

  GrowingBuffer<int64_t> offsets_;
  GrowingBuffer<uint8_t> bytes_;
  GrowingBuffer<uint8_t> nulls_;
  size_t finished_ = 0;  // where the open value begins
};

}  // namespace krill::corpus
