#include "text/file_range.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <limits>

namespace krill {

int read_file_range(const char* path, std::uint64_t start, std::uint8_t* target, std::size_t size) {
  if (start > static_cast<std::uint64_t>(std::numeric_limits<off_t>::max()) - size) return EOVERFLOW;
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno;
  std::size_t done = 0;
  int fault = 0;
  while (done < size && fault == 0) {
    const ssize_t got = pread(file, target + done, size - done, static_cast<off_t>(start + done));
    if (got > 0)
      done += static_cast<std::size_t>(got);
    else if (got == 0)
      fault = kFileTooShort;
    else if (errno != EINTR)
      fault = errno;
  }
  close(file);
  return fault;
}

}  // namespace krill
