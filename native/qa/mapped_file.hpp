// A file that is read through memory, and whose pages can be let go while it stays mapped: touched again,
// they come back from the system's cache. Holds what was touched since.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace krill::qa {

class MappedFile {
 public:
  // Throws std::system_error with what the system said. No descriptor stays open.
  explicit MappedFile(const char* path) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) throw std::system_error(errno, std::generic_category());
    struct stat known{};
    int error = fstat(file, &known) != 0 ? errno : 0;
    if (error == 0 && known.st_size > 0) {
      void* mapped = mmap(nullptr, static_cast<size_t>(known.st_size), PROT_READ, MAP_SHARED, file, 0);
      if (mapped == MAP_FAILED) {
        error = errno;
      } else {
        data_ = static_cast<const uint8_t*>(mapped);
        size_ = static_cast<size_t>(known.st_size);
      }
    }
    close(file);
    if (error != 0) throw std::system_error(error, std::generic_category());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile() {
    if (data_ != nullptr) munmap(const_cast<uint8_t*>(data_), size_);
  }

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  void drop_pages() const {
    if (data_ != nullptr) madvise(const_cast<uint8_t*>(data_), size_, MADV_DONTNEED);
  }

 private:
  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace krill::qa
