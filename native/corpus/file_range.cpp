#include "corpus/file_range.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace krill::corpus {

int read_file_range(const char* path, uint64_t start, uint8_t* target, size_t size) {
  if (start > static_cast<uint64_t>(std::numeric_limits<off_t>::max()) - size) return EOVERFLOW;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  size_t done = 0;
  int fault = 0;
  while (done < size && fault == 0) {
    const ssize_t got = pread(file, target + done, size - done, static_cast<off_t>(start + done));
    if (got > 0)
      done += static_cast<size_t>(got);
    else if (got == 0)
      fault = kFileTooShort;
    else if (errno != EINTR)
      fault = errno;
  }
  close(file);
  return fault;
}

}  // namespace krill::corpus
