// Reads pieces of many files into one buffer, one after the other.
//
// Holds at most `kMostOpen` descriptors, whatever the number of files, and two numbers for each file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace krill::pack {

// A file can't be opened or read, or ends too early.
struct UnreadableFile : std::runtime_error {
  UnreadableFile(size_t which, const std::string& reason) : std::runtime_error(reason), file(which) {}
  size_t file;
};

class PieceReader {
 public:
  static constexpr size_t kMostOpen = 16;

  explicit PieceReader(std::vector<std::string> paths)
      : paths_(std::move(paths)), descriptors_(paths_.size(), kClosed) {}
  PieceReader(const PieceReader&) = delete;
  PieceReader& operator=(const PieceReader&) = delete;
  ~PieceReader();

  // Reads `sizes[i]` bytes at `offsets[i]` of file `files[i]`, for each `i`, into `out`, which they must fill
  // exactly. Pieces that follow each other in a file are read at once. Throws UnreadableFile, and
  // std::invalid_argument for inconsistent numbers.
  void read(const uint32_t* files, const int64_t* offsets, const int64_t* sizes, size_t pieces, uint8_t* out,
            size_t out_size);

 private:
  static constexpr int kClosed = -1;

  int descriptor(size_t file);
  void read_fully(size_t file, int64_t offset, uint8_t* out, size_t size);

  std::vector<std::string> paths_;
  std::vector<int> descriptors_;
  std::deque<size_t> open_;  // the oldest first
};

}  // namespace krill::pack
