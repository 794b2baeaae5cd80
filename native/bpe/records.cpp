#include "bpe/records.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace krill::bpe {

namespace {

constexpr size_t kLongestNumber = 10;

size_t encode_number(uint64_t value, uint8_t* out) {
  size_t size = 0;
  while (value >= 0x80) {
    out[size++] = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  out[size++] = static_cast<uint8_t>(value);
  return size;
}

}  // namespace

FileFault::FileFault(const std::string& path, int code)
    : std::runtime_error(path + ": " + std::strerror(code)), path_(path), code_(code) {}

File::File(std::string path, bool create) : path_(std::move(path)) {
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0644);
  if (descriptor_ < 0) throw FileFault(path_, errno);
}

File::~File() { ::close(descriptor_); }

uint64_t File::size() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) throw FileFault(path_, errno);
  return static_cast<uint64_t>(status.st_size);
}

void File::truncate(uint64_t size) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) throw FileFault(path_, errno);
}

void File::sync() {
  if (::fsync(descriptor_) != 0) throw FileFault(path_, errno);
}

void File::write(uint64_t at, const void* data, size_t size) {
  const auto* bytes = static_cast<const uint8_t*>(data);
  while (size > 0) {
    const ssize_t written = ::pwrite(descriptor_, bytes, size, static_cast<off_t>(at));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw FileFault(path_, errno);
    bytes += written;
    at += static_cast<uint64_t>(written);
    size -= static_cast<size_t>(written);
  }
}

size_t File::read(uint64_t at, void* data, size_t size) const {
  auto* bytes = static_cast<uint8_t*>(data);
  size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(descriptor_, bytes + done, size - done, static_cast<off_t>(at + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw FileFault(path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

RecordWriter::RecordWriter(File& file, uint64_t at, size_t buffer_bytes)
    : file_(file), at_(at), buffer_(std::max<size_t>(buffer_bytes, 64)) {}

void RecordWriter::write(const Record& record) {
  uint8_t head[2 * kLongestNumber];
  size_t size = encode_number(record.count, head);
  size += encode_number(record.word.size(), head + size);
  put(head, size);
  put(record.word.data(), record.word.size());
  ++records_;
}

void RecordWriter::put(const void* data, size_t size) {
  if (size > buffer_.size() - used_) flush();
  if (size > buffer_.size()) {
    file_.write(at_, data, size);
    at_ += size;
    return;
  }
  std::memcpy(buffer_.data() + used_, data, size);
  used_ += size;
}

void RecordWriter::flush() {
  file_.write(at_, buffer_.data(), used_);
  at_ += used_;
  used_ = 0;
}

RecordReader::RecordReader(const File& file, uint64_t begin, uint64_t end, size_t buffer_bytes)
    : file_(&file), at_(begin), end_(end), buffer_(std::max<size_t>(buffer_bytes, 64)) {
  if (begin > end) throw DamagedFile("a range of records ends before it begins");
}

bool RecordReader::next(Record& record) {
  if (from_ == to_ && at_ == end_) return false;
  record.count = number();
  const uint64_t size = number();
  if (size > to_ - from_ + (end_ - at_)) throw DamagedFile("a word reaches beyond its records");
  if (!fill(static_cast<size_t>(size))) throw DamagedFile("a file of words is shorter than it was");
  record.word = {reinterpret_cast<const char*>(buffer_.data() + from_), static_cast<size_t>(size)};
  from_ += static_cast<size_t>(size);
  return true;
}

uint64_t RecordReader::first_size(const File& file, uint64_t begin, uint64_t end) {
  if (begin == end) return 0;
  RecordReader reader(file, begin, end, 0);
  reader.number();
  return reader.number();
}

uint64_t RecordReader::number() {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (from_ == to_ && !fill(1)) throw DamagedFile("a file of words ends within a record");
    const uint8_t byte = buffer_[from_++];
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  throw DamagedFile("a number in a file of words is too long");
}

// Makes `wanted` bytes available; those that are there are moved to the front first.
bool RecordReader::fill(size_t wanted) {
  if (to_ - from_ >= wanted) return true;
  std::memmove(buffer_.data(), buffer_.data() + from_, to_ - from_);
  to_ -= from_;
  from_ = 0;
  if (wanted > buffer_.size()) buffer_.resize(wanted);
  const uint64_t left = end_ - at_;
  const size_t room = static_cast<size_t>(std::min<uint64_t>(buffer_.size() - to_, left));
  const size_t got = file_->read(at_, buffer_.data() + to_, room);
  at_ += got;
  to_ += got;
  return to_ >= wanted;
}

}  // namespace krill::bpe
