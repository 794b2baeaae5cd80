#include "dedup/set_file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include <unistd.h>

namespace krill::dedup {
namespace {

constexpr uint64_t kMostNumbers = uint64_t{1} << 60;  // beyond it, offsets in bytes would overflow

void read_at(int file, void* target, size_t size, uint64_t offset) {
  auto* at = static_cast<char*>(target);
  while (size > 0) {
    const ssize_t got = pread(file, at, size, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw std::runtime_error(std::strerror(errno));
    if (got == 0) throw std::runtime_error("a file of sets ends early");
    at += got;
    size -= static_cast<size_t>(got);
    offset += static_cast<uint64_t>(got);
  }
}

// One set, a buffer at a time.
class SetReader {
 public:
  explicit SetReader(const SetFile& file) : file_(file) {}

  void open(uint64_t document) {
    if (document > kMostNumbers) throw std::runtime_error("a pair with no document");
    if (document == document_ && whole()) {  // often so for the set that many others are compared with
      at_ = 0;
      return;
    }
    document_ = document;
    std::array<uint64_t, 2> entry;
    read_at(file_.index, entry.data(), sizeof entry, document * sizeof entry);
    if (entry[0] > kMostNumbers || entry[1] > kMostNumbers)
      throw std::runtime_error("an index of sets is damaged");
    next_ = entry[0];
    size_ = left_ = entry[1];
    fill();
  }

  uint64_t size() const { return size_; }
  bool done() const { return at_ == filled_; }
  uint64_t front() const { return numbers_[at_]; }
  void pop() {
    if (++at_ == filled_ && left_ > 0) fill();
  }

 private:
  bool whole() const { return left_ == 0 && filled_ == size_; }

  void fill() {
    filled_ = static_cast<size_t>(std::min<uint64_t>(left_, numbers_.size()));
    read_at(file_.data, numbers_.data(), filled_ * sizeof(uint64_t), next_ * sizeof(uint64_t));
    next_ += filled_;
    left_ -= filled_;
    at_ = 0;
  }

  SetFile file_;
  uint64_t document_ = ~uint64_t{0};
  uint64_t size_ = 0;
  uint64_t next_ = 0;
  uint64_t left_ = 0;
  size_t at_ = 0;
  size_t filled_ = 0;
  std::array<uint64_t, 4096> numbers_;
};

uint64_t common(SetReader& one, SetReader& other) {
  uint64_t both = 0;
  while (!one.done() && !other.done()) {
    const uint64_t left = one.front();
    const uint64_t right = other.front();
    both += left == right;
    if (left <= right) one.pop();
    if (right <= left) other.pop();
  }
  return both;
}

}  // namespace

void jaccard(const SetFile& file, const Hash* pairs, size_t count, double* shares) {
  SetReader one(file);
  SetReader other(file);
  for (size_t i = 0; i < count; ++i) {
    one.open(pairs[i].low);
    other.open(pairs[i].high);
    const uint64_t total = one.size() + other.size();
    const uint64_t both = common(one, other);
    shares[i] = total == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(total - both);
  }
}

}  // namespace krill::dedup
