// Features for question answering as rows of numbers: question, window and special tokens put together.
// oracles.qa is the same in Python, one feature at a time. Holds nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace krill::qa {

enum class PieceKind : uint8_t { kFixed, kQuestion, kContext };

// A part of a feature; `ids` are those of a fixed one.
struct LayoutPiece {
  PieceKind kind;
  int32_t type;
  std::vector<int32_t> ids;
};

inline constexpr size_t kNoPiece = static_cast<size_t>(-1);

// The pieces of a feature in their order. The classification token is in the fixed piece `cls_piece`; without
// one, place 0 of the row stands for it.
struct FeatureLayout {
  std::vector<LayoutPiece> pieces;
  bool pad_left = false;
  size_t cls_piece = kNoPiece;
  size_t cls_place = 0;
};

inline constexpr int32_t kNowhere = -1;

// The tables of a unit as they were stored; nothing of them is trusted. List `i` is `ids[starts[i], starts[i
// + 1])`.
struct FeatureTables {
  // For each feature: its example, its window among the context's tokens, first and last token of the answer
  // in the window or kNowhere.
  std::span<const int32_t> example, begin, length, first, last;
  // For each example: its context, and the tokens of its question.
  std::span<const int32_t> paragraph;
  std::span<const int64_t> question_starts;
  std::span<const uint32_t> question_ids;
  // For each context: its tokens, and two numbers for each of them, where it begins and ends in the text.
  std::span<const int64_t> context_starts;
  std::span<const uint32_t> context_ids;
  std::span<const int32_t> context_spans;
};

// Where rows of `width` numbers go; `offsets` has two for each place, or is null.
struct FeatureRows {
  int32_t* input_ids;
  int32_t* attention_mask;
  int32_t* token_types;
  int32_t* starts;
  int32_t* ends;
  int32_t* cls_index;
  int32_t* offsets;
  size_t rows;
  size_t width;
};

// Writes the feature `wanted[i]` into the row `places[i]`, which must be all padding, for all i. Returns how
// many were written before one that the tables don't have, or that contradicts them or is wider than a row.
size_t fill_feature_rows(const FeatureLayout& layout, const FeatureTables& tables,
                         std::span<const int64_t> wanted, std::span<const int64_t> places,
                         const FeatureRows& rows);

}  // namespace krill::qa
