// Rows of tokens as the columns of a training batch, in one pass over the rows. Holds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace krill {

// What a model compares its predictions with, at each position.
enum class Labels : std::uint8_t {
  kNone,
  kShifted,    // the token that follows; nothing where the next one belongs to another document
  kUnshifted,  // the token itself, for models that shift by themselves; nothing where a document begins
};

inline constexpr std::int64_t kIgnored = -100;

enum class TokenType : std::uint8_t { kU8, kU16, kU32, kU64, kI32, kI64 };

// Row `i` is `tokens[offsets[i], offsets[i + 1])`; its documents have the lengths
// `seq_lengths[seq_offsets[i], seq_offsets[i + 1])`. Nothing of it is trusted.
struct TokenRows {
  const void* tokens;
  TokenType type;
  std::size_t token_count;
  const std::int64_t* offsets;
  const std::int32_t* seq_lengths;
  std::size_t document_count;
  const std::int32_t* seq_offsets;
  std::size_t rows;
};

// Where the columns go, each of `rows * width` numbers; what is null is not made. Numbers are int32, or int64
// where ids (and with them segments, positions and mask) or labels are `wide`.
struct Columns {
  void* ids;
  void* labels;
  void* segments;
  void* positions;
  void* mask;
  std::size_t width;
  std::int64_t pad;
  Labels kind;
  bool wide_ids;
  bool wide_labels;
};

struct BadRow : std::runtime_error {
  BadRow(std::size_t which, const std::string& reason) : std::runtime_error(reason), row(which) {}
  std::size_t row;
};

// Throws BadRow for the first row that is wider than the columns, or whose documents don't add up to it.
void write_columns(const TokenRows& rows, const Columns& columns);

}  // namespace krill
