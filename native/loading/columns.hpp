// Rows of tokens as the columns of a training batch, in one pass over the rows. Holds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace krill::loading {

// The target of a model's prediction at each position.
enum class Labels : uint8_t {
  kNone,
  kShifted,    // the token that follows; nothing where the next one belongs to another document
  kUnshifted,  // the token itself, for models that shift by themselves; nothing where a document begins
};

inline constexpr int64_t kIgnored = -100;

enum class TokenType : uint8_t { kU8, kU16, kU32, kU64, kI32, kI64 };

// Row `i` is `tokens[offsets[i], offsets[i + 1])`; its documents have the lengths
// `seq_lengths[seq_offsets[i], seq_offsets[i + 1])`. The numbers are not trusted.
struct TokenRows {
  const void* tokens;
  TokenType type;
  size_t token_count;
  const int32_t* labels;  // of each token, unshifted; null: the token itself, but for a document's first
  const int64_t* offsets;
  const int32_t* seq_lengths;
  size_t document_count;
  const int32_t* seq_offsets;
  size_t rows;
};

// Where the columns go, each of `rows * width` numbers; what is null is not made. Numbers are int32, or int64
// where ids (and with them segments, positions and mask) or labels are `wide`.
struct Columns {
  void* ids;
  void* labels;
  void* segments;
  void* positions;
  void* mask;
  size_t width;
  int64_t pad;
  Labels kind;
  bool wide_ids;
  bool wide_labels;
};

struct BadRow : std::runtime_error {
  BadRow(size_t which, const std::string& reason) : std::runtime_error(reason), row(which) {}
  size_t row;
};

// Throws BadRow for the first row that is wider than the columns, or whose documents don't add up to it.
void write_columns(const TokenRows& rows, const Columns& columns);

}  // namespace krill::loading
