// Pieces of many files, put one after the other into memory.
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

namespace krill {

// A file can't be opened or read, or ends too early.
struct UnreadableFile : std::runtime_error {
  UnreadableFile(std::size_t which, const std::string& reason) : std::runtime_error(reason), file(which) {}
  std::size_t file;
};

class PieceReader {
 public:
  static constexpr std::size_t kMostOpen = 16;

  explicit PieceReader(std::vector<std::string> paths)
      : paths_(std::move(paths)), descriptors_(paths_.size(), kClosed) {}
  PieceReader(const PieceReader&) = delete;
  PieceReader& operator=(const PieceReader&) = delete;
  ~PieceReader();

  // Reads `sizes[i]` bytes at `offsets[i]` of file `files[i]`, for each `i`, into `out`, which they must fill
  // exactly. Pieces that follow each other in a file are read at once. Throws UnreadableFile, and
  // std::invalid_argument for numbers that make no sense.
  void read(const std::uint32_t* files, const std::int64_t* offsets, const std::int64_t* sizes,
            std::size_t pieces, std::uint8_t* out, std::size_t out_size);

 private:
  static constexpr int kClosed = -1;

  int descriptor(std::size_t file);
  void read_fully(std::size_t file, std::int64_t offset, std::uint8_t* out, std::size_t size);

  std::vector<std::string> paths_;
  std::vector<int> descriptors_;
  std::deque<std::size_t> open_;  // the oldest first
};

}  // namespace krill
