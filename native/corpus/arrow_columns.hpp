// The bytes of each row of an Arrow batch: a call into Python for each of ten thousand columns would take a
// hundred times as long.
//
// Batches come through Arrow's C data interface, whose structures are a stable ABI:
// https://arrow.apache.org/docs/format/CDataInterface.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

namespace krill::corpus {

// Adds the bytes of each row to `total`, which has batch.length numbers, for columns of strings, binaries and
// plain numbers; a string counts its bytes (none if it is null) and its offset. Returns the indices of all
// other columns.
std::vector<size_t> add_row_bytes(const ArrowSchema& schema, const ArrowArray& batch, int64_t* total);

}  // namespace krill::corpus
