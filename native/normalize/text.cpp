#include "normalize/text.hpp"

#include <limits>

#include "check.hpp"

namespace krill::normalize {

void Text::assign(const uint8_t* text, size_t size, size_t readable) {
  expect(!tracked_ || size <= std::numeric_limits<uint32_t>::max(),
         "a text of which origins are tracked must be smaller than 4 GiB");
  data_ = text;
  size_ = size;
  readable_ = readable;
  origins_ = nullptr;
  changed_ = has_origins_ = false;
}

const Origin* Text::present_origins() {
  if (has_origins_) return origins_;
  GrowingBuffer<Origin>& origins = origin_buffers_[1 - turn_];
  origins.truncate(0);
  for (size_t at = 0; at < size_;) {
    const size_t length = point_at(data_, size_, at).length;
    origins.append_repeated({static_cast<uint32_t>(at), static_cast<uint32_t>(at + length)}, length);
    at += length;
  }
  has_origins_ = true;
  return origins_ = origins.data();
}

void Text::flip() {
  size_ = bytes_[turn_].size();
  readable_ = size_ + kSlack;
  data_ = bytes_[turn_].room(kSlack) - size_;
  origins_ = origin_buffers_[turn_].data();
  has_origins_ = tracked_;
  changed_ = true;
  turn_ = 1 - turn_;
}

void Text::narrow(size_t begin, size_t end) {
  if (begin == 0 && end == size_) return;
  if (tracked_) origins_ = present_origins() + begin;
  data_ += begin;
  size_ = end - begin;
  readable_ -= begin;
  changed_ = true;
}

void Rewriter::start() {
  started_ = true;
  text_.next_bytes().truncate(0);
  if (!text_.tracked()) return;
  old_ = text_.present_origins();
  text_.next_origins().truncate(0);
}

void Rewriter::flush_kept() {
  const size_t begin = kept_begin_;
  const size_t end = kept_end_;
  kept_begin_ = kept_end_;
  text_.next_bytes().append(source_ + begin, end - begin);
  if (!text_.tracked()) return;
  if (used_ == begin) {
    text_.next_origins().append(old_ + begin, end - begin);
    used_ = end;
    written_ = true;
    last_change_ = 0;
    return;
  }
  for (size_t at = begin; at < end;) {
    const size_t length = point_at(source_, size_, at).length;
    put_origin(length, 0);
    at += length;
  }
}

void Rewriter::put_origin(size_t bytes, int32_t change) {
  Origin origin{0, 0};
  if (change > 0) {
    if (used_ > 0) origin = old_[used_ - 1];
  } else if (size_ > 0) {
    // The library stops where characters replace more than there are; no step here does that.
    origin = old_[std::min(used_, size_ - 1)];
    advance(1 + static_cast<size_t>(-change));
  }
  text_.next_origins().append_repeated(origin, bytes);
  last_bytes_ = bytes;
  last_change_ = change;
  written_ = true;
}

void Rewriter::remove_origins(size_t count, bool at_start) {
  if (!written_) {
    if (at_start) advance(count);
    return;
  }
  if (last_change_ > 0 && count > 0 && size_ > 0) {
    GrowingBuffer<Origin>& origins = text_.next_origins();
    const Origin origin = old_[std::min(used_, size_ - 1)];
    for (size_t at = origins.size() - last_bytes_; at < origins.size(); ++at) origins[at] = origin;
  }
  last_change_ -= static_cast<int32_t>(count);
  advance(count);
}

void Rewriter::advance(size_t characters) {
  for (; characters > 0 && used_ < size_; --characters) used_ += point_at(source_, size_, used_).length;
}

void Rewriter::replace(size_t begin, size_t end, const uint8_t* content, size_t content_size) {
  keep_to(begin);
  flush();
  text_.next_bytes().append(content, content_size);
  if (text_.tracked()) {
    text_.next_origins().append_repeated(end == 0 ? Origin{0, 0} : old_[end - 1], content_size);
    used_ = end;
  }
  kept_begin_ = kept_end_ = end;
}

void Rewriter::finish() {
  keep_to(size_);
  if (!started_) return;
  flush();
  text_.flip();
}

}  // namespace krill::normalize
