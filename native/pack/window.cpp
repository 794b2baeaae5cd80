#include "pack/window.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace krill::pack {

PackedWindow::PackedWindow(const uint32_t* lengths, size_t documents, uint32_t width, bool best_fit)
    : width_(width), lengths_(lengths), documents_(documents), marks_((documents + kStride - 1) / kStride) {
  if (width == 0 || width > static_cast<uint32_t>(std::numeric_limits<int32_t>::max()))
    throw std::invalid_argument("a row has between 1 and 2^31 - 1 tokens");
  if (best_fit) fitted_.emplace(fit_remainders(lengths, documents, width));
  for (size_t i = 0; i < documents; ++i) {
    if (i % kStride == 0) marks_[i / kStride] = {tokens_, cut_rows_};
    tokens_ += lengths_[i];
    cut_rows_ += cut_rows_of(lengths_[i]);
  }
}

// Rows that are a document's own: with best fit the full ones, else also the short one at its end.
uint64_t PackedWindow::cut_rows_of(uint32_t length) const {
  return length / width_ + (!fitted_ && length % width_ != 0);
}

uint64_t PackedWindow::start_of(size_t document) const {
  const size_t mark = document / kStride;
  uint64_t start = marks_[mark].tokens;
  for (size_t i = mark * kStride; i < document; ++i) start += lengths_[i];
  return start;
}

Pieces PackedWindow::pieces(uint64_t first, uint64_t count) const {
  if (first > rows() || count > rows() - first) throw std::out_of_range("the window has fewer rows");
  const uint64_t cut = first < cut_rows_ ? std::min(count, cut_rows_ - first) : 0;
  const uint64_t fitted_first = first + cut - cut_rows_;  // used only if rows are left for it
  uint64_t total = cut;
  if (count > cut) total += fitted_->offsets[fitted_first + count - cut] - fitted_->offsets[fitted_first];
  if (total > static_cast<uint64_t>(std::numeric_limits<int32_t>::max()))
    throw std::invalid_argument("so many rows at once have more pieces than can be counted");
  Pieces pieces{Buffer<int64_t>(total), Buffer<int32_t>(total), Buffer<int32_t>(count + 1)};
  pieces.row_offsets[0] = 0;
  if (cut != 0) cut_pieces(first, cut, pieces);
  if (count > cut) fitted_pieces(fitted_first, count - cut, pieces, cut);
  return pieces;
}

void PackedWindow::cut_pieces(uint64_t first, uint64_t count, Pieces& pieces) const {
  const Mark* end = marks_.data() + marks_.size();
  const Mark* after = std::upper_bound(marks_.data(), end, first,
                                       [](uint64_t row, const Mark& mark) { return row < mark.rows; });
  size_t document = static_cast<size_t>(after - 1 - marks_.data()) * kStride;
  uint64_t start = after[-1].tokens;
  uint64_t before = after[-1].rows;
  for (size_t row = 0; row < count && document < documents_; ++document) {
    const uint32_t length = lengths_[document];
    const uint64_t own = cut_rows_of(length);
    for (uint64_t piece = first + row - before; piece < own && row < count; ++piece, ++row) {
      const uint64_t offset = piece * width_;
      pieces.starts[row] = static_cast<int64_t>(start + offset);
      pieces.lengths[row] = static_cast<int32_t>(std::min<uint64_t>(width_, length - offset));
      pieces.row_offsets[row + 1] = static_cast<int32_t>(row + 1);
    }
    start += length;
    before += own;
  }
}

void PackedWindow::fitted_pieces(uint64_t first, uint64_t count, Pieces& pieces, size_t at) const {
  size_t row = at;  // a cut row is one piece, so rows and pieces so far are as many
  for (uint64_t fitted = first; fitted < first + count; ++fitted) {
    for (uint32_t i = fitted_->offsets[fitted]; i < fitted_->offsets[fitted + 1]; ++i, ++at) {
      const size_t document = fitted_->documents[i];
      const uint32_t length = lengths_[document];
      pieces.starts[at] = static_cast<int64_t>(start_of(document) + length - length % width_);
      pieces.lengths[at] = static_cast<int32_t>(length % width_);
    }
    pieces.row_offsets[++row] = static_cast<int32_t>(at);
  }
}

}  // namespace krill::pack
