// Words with their counts in files: a count, a length, the bytes; numbers in 7-bit groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace krill {

// What a file could not be read or written for; `code` is errno.
class FileFault : public std::runtime_error {
 public:
  FileFault(const std::string& path, int code);
  const std::string& path() const { return path_; }
  int code() const { return code_; }

 private:
  std::string path_;
  int code_;
};

// A file of records does not hold what was written.
class DamagedFile : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Record {
  std::uint64_t count;
  std::string_view word;
};

// A file opened for reading and writing, by position.
class File {
 public:
  File(std::string path, bool create);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::string& path() const { return path_; }
  std::uint64_t size() const;
  void truncate(std::uint64_t size);
  void sync();
  void write(std::uint64_t at, const void* data, std::size_t size);
  // Fills as much as there is; returns how much.
  std::size_t read(std::uint64_t at, void* data, std::size_t size) const;

 private:
  std::string path_;
  int descriptor_;
};

// Appends records from a position on, through one buffer.
class RecordWriter {
 public:
  RecordWriter(File& file, std::uint64_t at, std::size_t buffer_bytes);
  void write(const Record& record);
  void flush();
  std::uint64_t position() const { return at_ + used_; }
  std::uint64_t records() const { return records_; }

 private:
  void put(const void* data, std::size_t size);

  File& file_;
  std::uint64_t at_;
  std::vector<std::uint8_t> buffer_;
  std::size_t used_ = 0;
  std::uint64_t records_ = 0;
};

// Reads the records of a stretch of a file, through one buffer that grows to the longest word.
class RecordReader {
 public:
  RecordReader(const File& file, std::uint64_t begin, std::uint64_t end, std::size_t buffer_bytes);
  // False at the end. The word is valid until the next call.
  bool next(Record& record);
  // How long the first word of a stretch is; 0 if there is none.
  static std::uint64_t first_size(const File& file, std::uint64_t begin, std::uint64_t end);

 private:
  bool fill(std::size_t wanted);
  std::uint64_t number();

  const File* file_;
  std::uint64_t at_;
  std::uint64_t end_;
  std::vector<std::uint8_t> buffer_;
  std::size_t from_ = 0;
  std::size_t to_ = 0;
};

}  // namespace krill
