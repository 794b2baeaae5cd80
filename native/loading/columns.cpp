#include "loading/columns.hpp"

#include <algorithm>

namespace krill::loading {
namespace {

// The columns of one row, and of one of its documents at a time.
template <class Token, class Id, class Label>
class RowWriter {
 public:
  RowWriter(const Columns& columns, size_t row)
      : ids_(column<Id>(columns.ids, columns, row)),
        labels_(column<Label>(columns.labels, columns, row)),
        segments_(column<Id>(columns.segments, columns, row)),
        positions_(column<Id>(columns.positions, columns, row)),
        mask_(column<Id>(columns.mask, columns, row)),
        kind_(columns.kind) {}

  void write_tokens(const Token* tokens, size_t length) {
    std::transform(tokens, tokens + length, ids_, [](Token token) { return static_cast<Id>(token); });
    if (mask_) std::fill_n(mask_, length, Id{1});
  }

  // The document `number`, counted from 1, is `tokens[at, at + length)`; its labels too, where they are
  // given.
  void write_document(const Token* tokens, const int32_t* labels, size_t at, size_t length, size_t number) {
    if (labels_ && labels) write_labels(labels + at, length, labels_ + at);
    if (labels_ && !labels) write_labels(tokens + at, length, labels_ + at);
    if (segments_) std::fill_n(segments_ + at, length, static_cast<Id>(number));
    if (positions_)
      for (size_t i = 0; i < length; ++i) positions_[at + i] = static_cast<Id>(i);
  }

  void pad(size_t from, size_t to, Id id) {
    std::fill(ids_ + from, ids_ + to, id);
    if (labels_) std::fill(labels_ + from, labels_ + to, static_cast<Label>(kIgnored));
    for (Id* column : {segments_, positions_, mask_})
      if (column) std::fill(column + from, column + to, Id{0});
  }

 private:
  template <class T>
  static T* column(void* data, const Columns& columns, size_t row) {
    return data ? static_cast<T*>(data) + row * columns.width : nullptr;
  }

  template <class From>
  void write_labels(const From* from, size_t length, Label* labels) const {
    // Of all but one of the tokens: the first has no document before it that could predict it.
    Label* to = kind_ == Labels::kShifted ? labels : labels + 1;
    std::transform(from + 1, from + length, to, [](From label) { return static_cast<Label>(label); });
    labels[kind_ == Labels::kShifted ? length - 1 : 0] = static_cast<Label>(kIgnored);
  }

  Id* ids_;
  Label* labels_;
  Id* segments_;
  Id* positions_;
  Id* mask_;
  Labels kind_;
};

template <class Token, class Id, class Label>
void write_row(const TokenRows& in, const Columns& out, size_t row) {
  const int64_t start = in.offsets[row];
  const int64_t end = in.offsets[row + 1];
  if (start < 0 || end < start || static_cast<uint64_t>(end) > in.token_count)
    throw BadRow(row, "lies outside of the tokens");
  const auto length = static_cast<size_t>(end - start);
  if (length > out.width) throw BadRow(row, "is wider than " + std::to_string(out.width) + " tokens");
  const int32_t first = in.seq_offsets[row];
  const int32_t last = in.seq_offsets[row + 1];
  if (first < 0 || last < first || static_cast<size_t>(last) > in.document_count)
    throw BadRow(row, "has documents that are not there");

  RowWriter<Token, Id, Label> writer(out, row);
  const Token* tokens = static_cast<const Token*>(in.tokens) + start;
  const int32_t* labels = in.labels ? in.labels + start : nullptr;
  writer.write_tokens(tokens, length);
  size_t done = 0;
  for (int32_t document = first; document < last; ++document) {
    const int32_t size = in.seq_lengths[document];
    if (size < 1 || static_cast<size_t>(size) > length - done)
      throw BadRow(row, "has `seq_lengths` that don't add up to its tokens");
    writer.write_document(tokens, labels, done, static_cast<size_t>(size),
                          static_cast<size_t>(document - first) + 1);
    done += static_cast<size_t>(size);
  }
  if (done != length) throw BadRow(row, "has `seq_lengths` that don't add up to its tokens");
  writer.pad(length, out.width, static_cast<Id>(out.pad));
}

template <class Token, class Id, class Label>
void write_rows(const TokenRows& in, const Columns& out) {
  for (size_t row = 0; row < in.rows; ++row) write_row<Token, Id, Label>(in, out, row);
}

template <class Token>
void write_from(const TokenRows& in, const Columns& out) {
  if (out.wide_ids && out.wide_labels) return write_rows<Token, int64_t, int64_t>(in, out);
  if (out.wide_ids) return write_rows<Token, int64_t, int32_t>(in, out);
  if (out.wide_labels) return write_rows<Token, int32_t, int64_t>(in, out);
  write_rows<Token, int32_t, int32_t>(in, out);
}

}  // namespace

void write_columns(const TokenRows& rows, const Columns& columns) {
  switch (rows.type) {
    case TokenType::kU8: return write_from<uint8_t>(rows, columns);
    case TokenType::kU16: return write_from<uint16_t>(rows, columns);
    case TokenType::kU32: return write_from<uint32_t>(rows, columns);
    case TokenType::kU64: return write_from<uint64_t>(rows, columns);
    case TokenType::kI32: return write_from<int32_t>(rows, columns);
    case TokenType::kI64: return write_from<int64_t>(rows, columns);
  }
}

}  // namespace krill::loading
