// A range of a local file, read with pread into memory that the caller gives.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krill::corpus {

constexpr int kFileTooShort = -1;

// Fills `target` with the `size` bytes from `start` on. Returns 0, an errno, or kFileTooShort.
int read_file_range(const char* path, uint64_t start, uint8_t* target, size_t size);

}  // namespace krill::corpus
