// What the rows of an Arrow batch weigh, column after column: a call into Python for each of ten thousand
// columns would take a hundred times as long.
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
  std::int64_t flags;
  std::int64_t n_children;
  struct ArrowSchema** children;
  struct ArrowSchema* dictionary;
  void (*release)(struct ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  struct ArrowArray** children;
  struct ArrowArray* dictionary;
  void (*release)(struct ArrowArray*);
  void* private_data;
};

namespace krill::text {

// Adds the bytes of each row to `total`, which has batch.length numbers, for columns of strings, binaries and
// plain numbers; a string has its own bytes, none beneath a null, and its offset. Returns the places of all
// other columns.
std::vector<std::size_t> add_row_bytes(const ArrowSchema& schema, const ArrowArray& batch,
                                       std::int64_t* total);

}  // namespace krill::text
