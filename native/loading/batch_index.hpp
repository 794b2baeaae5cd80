// Where the rows of one record batch begin, and the lengths of their documents: krill.dataset.batch_index is
// the same in Python. Twelve bytes at most for each row and four for each document.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "loading/shard_file.hpp"

namespace krill::loading {

// The shape of every row.
struct RowShape {
  int64_t width;     // tokens, or the most of them
  int64_t itemsize;  // bytes of a token
  bool fixed;        // whether every row has `width` tokens
  int64_t more = 0;  // columns of as many numbers behind these two: the int32 labels first
};

struct BatchIndex {
  int64_t tokens_at = 0;               // in the file
  int64_t labels_at = 0;               // the same of the labels, if there are any
  std::vector<int32_t> token_offsets;  // of variable rows, counted from there
  std::vector<int32_t> offsets;        // into `seq_lengths`
  std::vector<int32_t> seq_lengths;

  int64_t token_offset(const RowShape& shape, int64_t row) const {
    return shape.fixed ? row * shape.width : token_offsets[static_cast<size_t>(row)];
  }
  size_t bytes() const {
    return sizeof(BatchIndex) + 4 * (token_offsets.size() + offsets.size() + seq_lengths.size());
  }
};

// The index of a batch of `rows` rows whose message takes the bytes `start` to `end` of the file. Throws
// DamagedHeader if there is no such batch, UnreadableFile if the file can't be read.
BatchIndex read_batch_index(const ShardFile& file, int64_t start, int64_t end, int64_t rows,
                            const RowShape& shape);

}  // namespace krill::loading
