#include "fasttext/model_reader.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <stdexcept>

#include "dedup/hash.hpp"

namespace krill::fasttext {

namespace {

constexpr size_t kMostAtOnce = size_t{1} << 22;

}  // namespace

void FileSource::read(void* out, size_t size) {
  auto* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    const ssize_t got = ::read(descriptor_, to, size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::invalid_argument(std::string("it can't be read: ") + std::strerror(errno));
    if (got == 0) throw std::invalid_argument("it is cut short, or a size in it is wrong");
    to += got;
    size -= static_cast<size_t>(got);
  }
}

void ModelReader::take(void* out, size_t size) {
  auto* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    const size_t piece = std::min(size, kMostAtOnce);
    source_.read(to, piece);
    const uint64_t hash = dedup::hash_bytes(to, piece, 0).low;
    fingerprint_ = (fingerprint_ ^ hash) * 0x9e3779b97f4a7c15u + piece;
    to += piece;
    size -= piece;
    unread_ -= piece;
  }
}

void ModelReader::fill() {
  expect(unread_ > 0, "it is cut short, or a size in it is wrong");
  end_ = std::min(unread_, buffer_.size());
  at_ = 0;
  take(buffer_.data(), end_);
}

void ModelReader::read(void* out, size_t size) {
  expect_left(size, 1);
  auto* to = static_cast<uint8_t*>(out);
  while (size > 0) {
    if (at_ == end_ && size >= buffer_.size()) return take(to, size);
    if (at_ == end_) fill();
    const size_t piece = std::min(size, end_ - at_);
    std::memcpy(to, buffer_.data() + at_, piece);
    at_ += piece;
    to += piece;
    size -= piece;
  }
}

Buffer<float> ModelReader::floats(uint64_t count) {
  expect_left(count, sizeof(float));
  Buffer<float> found(count);
  read(found.data(), count * sizeof(float));
  const bool finite =
      std::all_of(found.data(), found.data() + count, [](float value) { return std::isfinite(value); });
  expect(finite, "a weight in it is not a number");
  return found;
}

}  // namespace krill::fasttext
