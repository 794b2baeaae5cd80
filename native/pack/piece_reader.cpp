#include "pack/piece_reader.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

namespace krill::pack {
namespace {

// Linux reads no more than this at once; a larger size is not an error anywhere.
constexpr size_t kMostAtOnce = size_t{1} << 30;

void check(const uint32_t* files, const int64_t* offsets, const int64_t* sizes, size_t pieces,
           size_t file_count, size_t out_size) {
  size_t total = 0;
  for (size_t i = 0; i < pieces; ++i) {
    if (files[i] >= file_count) throw std::invalid_argument("a piece names a file that is not there");
    if (offsets[i] < 0 || sizes[i] < 0 || offsets[i] > std::numeric_limits<int64_t>::max() - sizes[i])
      throw std::invalid_argument("a piece lies outside of any file");
    if (static_cast<size_t>(sizes[i]) > out_size - total)
      throw std::invalid_argument("the pieces don't fit the memory that is given");
    total += static_cast<size_t>(sizes[i]);
  }
  if (total != out_size) throw std::invalid_argument("the pieces don't fill the memory that is given");
}

}  // namespace

PieceReader::~PieceReader() {
  for (const size_t file : open_) ::close(descriptors_[file]);
}

void PieceReader::read(const uint32_t* files, const int64_t* offsets, const int64_t* sizes, size_t pieces,
                       uint8_t* out, size_t out_size) {
  check(files, offsets, sizes, pieces, paths_.size(), out_size);
  for (size_t i = 0; i < pieces;) {
    const size_t first = i;
    int64_t end = offsets[i] + sizes[i];
    for (++i; i < pieces && files[i] == files[first] && offsets[i] == end; ++i) end += sizes[i];
    const size_t size = static_cast<size_t>(end - offsets[first]);
    read_fully(files[first], offsets[first], out, size);
    out += size;
  }
}

int PieceReader::descriptor(size_t file) {
  if (descriptors_[file] != kClosed) return descriptors_[file];
  if (open_.size() == kMostOpen) {
    ::close(descriptors_[open_.front()]);
    descriptors_[open_.front()] = kClosed;
    open_.pop_front();
  }
  const int opened = ::open(paths_[file].c_str(), O_RDONLY | O_CLOEXEC);
  if (opened < 0) throw UnreadableFile(file, std::strerror(errno));
  descriptors_[file] = opened;
  open_.push_back(file);
  return opened;
}

void PieceReader::read_fully(size_t file, int64_t offset, uint8_t* out, size_t size) {
  const int from = descriptor(file);
  while (size > 0) {
    const ssize_t got = ::pread(from, out, std::min(size, kMostAtOnce), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw UnreadableFile(file, std::strerror(errno));
    if (got == 0) throw UnreadableFile(file, "it ends too early");
    out += got;
    offset += got;
    size -= static_cast<size_t>(got);
  }
}

}  // namespace krill::pack
