// A window of documents, cut and fitted into rows of at most `width` tokens; any of its rows is found without
// computing those before it.
//
// Holds, with best fit, up to 8 bytes for each document beside their lengths, which stay the caller's; while
// it is made, what `fit_remainders` needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "buffer.hpp"
#include "pack/best_fit.hpp"

namespace krill::pack {

// The pieces of some rows: where each begins among the window's tokens, its length, and where rows begin
// among the pieces.
struct Pieces {
  Buffer<int64_t> starts;
  Buffer<int32_t> lengths;
  Buffer<int32_t> row_offsets;
};

class PackedWindow {
 public:
  // Each document begins rows of its own; or, with `best_fit`, first all full rows of all documents and then
  // what is left of each, several to a row. The lengths must outlive the window. Throws std::invalid_argument
  // if `width` is 0 or above 2^31 - 1.
  PackedWindow(const uint32_t* lengths, size_t documents, uint32_t width, bool best_fit);

  uint64_t rows() const { return cut_rows_ + fitted_rows(); }
  uint64_t tokens() const { return tokens_; }

  // Throws std::out_of_range if there are fewer rows.
  Pieces pieces(uint64_t first, uint64_t count) const;

 private:
  // Every so many documents it is noted how many tokens and cut rows come before.
  static constexpr size_t kStride = 64;
  struct Mark {
    uint64_t tokens;
    uint64_t rows;
  };

  uint64_t fitted_rows() const { return fitted_ ? fitted_->offsets.size() - 1 : 0; }
  uint64_t cut_rows_of(uint32_t length) const;
  uint64_t start_of(size_t document) const;
  void cut_pieces(uint64_t first, uint64_t count, Pieces& pieces) const;
  void fitted_pieces(uint64_t first, uint64_t count, Pieces& pieces, size_t at) const;

  uint32_t width_;
  const uint32_t* lengths_;
  size_t documents_;
  Buffer<Mark> marks_;
  uint64_t tokens_ = 0;
  uint64_t cut_rows_ = 0;
  std::optional<FittedRows> fitted_;
};

}  // namespace krill::pack
