// Words with their counts in files: a count, a length, the bytes; numbers in 7-bit groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace krill::bpe {

// A file could not be read or written; `code` is errno.
class FileFault : public std::runtime_error {
 public:
  FileFault(const std::string& path, int code);
  const std::string& path() const { return path_; }
  int code() const { return code_; }

 private:
  std::string path_;
  int code_;
};

// A file of records is not what was written.
class DamagedFile : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct Record {
  uint64_t count;
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
  uint64_t size() const;
  void truncate(uint64_t size);
  void sync();
  void write(uint64_t at, const void* data, size_t size);
  // Reads up to the end of the file; returns how many bytes.
  size_t read(uint64_t at, void* data, size_t size) const;

 private:
  std::string path_;
  int descriptor_;
};

// Appends records from a position on, through one buffer.
class RecordWriter {
 public:
  RecordWriter(File& file, uint64_t at, size_t buffer_bytes);
  void write(const Record& record);
  void flush();
  uint64_t position() const { return at_ + used_; }
  uint64_t records() const { return records_; }

 private:
  void put(const void* data, size_t size);

  File& file_;
  uint64_t at_;
  std::vector<uint8_t> buffer_;
  size_t used_ = 0;
  uint64_t records_ = 0;
};

// Reads the records in a range of a file, through one buffer that grows to the longest word.
class RecordReader {
 public:
  RecordReader(const File& file, uint64_t begin, uint64_t end, size_t buffer_bytes);
  // False at the end. The word is valid until the next call.
  bool next(Record& record);
  // The length of the first word of a range; 0 if there is none.
  static uint64_t first_size(const File& file, uint64_t begin, uint64_t end);

 private:
  bool fill(size_t wanted);
  uint64_t number();

  const File* file_;
  uint64_t at_;
  uint64_t end_;
  std::vector<uint8_t> buffer_;
  size_t from_ = 0;
  size_t to_ = 0;
};

}  // namespace krill::bpe
