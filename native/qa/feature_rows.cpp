#include "qa/feature_rows.hpp"

#include <algorithm>
#include <optional>

namespace krill::qa {
namespace {

// One feature, looked up and found to be within its tables.
struct Feature {
  std::span<const uint32_t> question;
  std::span<const uint32_t> window;
  std::span<const int32_t> spans;
  int32_t first;
  int32_t last;
};

template <class T>
bool has(std::span<const T> values, int64_t index) {
  return index >= 0 && static_cast<uint64_t>(index) < values.size();
}

// List `number` of those in `ids`, if there is one.
std::optional<std::span<const uint32_t>> list_at(std::span<const int64_t> starts,
                                                 std::span<const uint32_t> ids, int32_t number) {
  if (number < 0 || starts.size() < 2 || static_cast<size_t>(number) >= starts.size() - 1) return {};
  const int64_t begin = starts[static_cast<size_t>(number)];
  const int64_t end = starts[static_cast<size_t>(number) + 1];
  if (begin < 0 || end < begin || static_cast<uint64_t>(end) > ids.size()) return {};
  return ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
}

std::optional<Feature> find_feature(const FeatureTables& tables, int64_t number) {
  for (const auto column : {tables.example, tables.begin, tables.length, tables.first, tables.last})
    if (!has(column, number)) return {};
  const auto row = static_cast<size_t>(number);
  const int32_t example = tables.example[row];
  if (!has(tables.paragraph, example)) return {};
  const auto question = list_at(tables.question_starts, tables.question_ids, example);
  const int32_t paragraph = tables.paragraph[static_cast<size_t>(example)];
  const auto context = list_at(tables.context_starts, tables.context_ids, paragraph);
  if (!question || !context) return {};
  const int64_t begin = tables.begin[row];
  const int64_t length = tables.length[row];
  if (begin < 0 || length < 0 || static_cast<uint64_t>(begin + length) > context->size()) return {};
  const int32_t first = tables.first[row];
  const int32_t last = tables.last[row];
  if (first < kNowhere || first >= length || last < kNowhere || last >= length) return {};
  const auto window = context->subspan(static_cast<size_t>(begin), static_cast<size_t>(length));
  const auto at = static_cast<size_t>(window.data() - tables.context_ids.data());
  if (tables.context_spans.size() / 2 < at + window.size()) return {};
  return Feature{*question, window, tables.context_spans.subspan(2 * at, 2 * window.size()), first, last};
}

size_t length_of(const LayoutPiece& piece, const Feature& feature) {
  switch (piece.kind) {
    case PieceKind::kFixed: return piece.ids.size();
    case PieceKind::kQuestion: return feature.question.size();
    default: return feature.window.size();
  }
}

void copy_ids(std::span<const uint32_t> ids, int32_t* out) {
  std::transform(ids.begin(), ids.end(), out, [](uint32_t id) { return static_cast<int32_t>(id); });
}

void write_row(const FeatureLayout& layout, const Feature& feature, size_t used, size_t row,
               const FeatureRows& rows) {
  const size_t base = row * rows.width;
  const size_t begin = layout.pad_left ? rows.width - used : 0;
  size_t at = begin;
  size_t cls_at = 0;
  size_t context_at = 0;
  std::fill_n(rows.attention_mask + base + begin, used, 1);
  for (size_t number = 0; number < layout.pieces.size(); ++number) {
    const LayoutPiece& piece = layout.pieces[number];
    const size_t length = length_of(piece, feature);
    int32_t* ids = rows.input_ids + base + at;
    if (piece.kind == PieceKind::kFixed) {
      std::copy(piece.ids.begin(), piece.ids.end(), ids);
      if (number == layout.cls_piece) cls_at = at + layout.cls_place;
    } else if (piece.kind == PieceKind::kQuestion) {
      copy_ids(feature.question, ids);
    } else {
      context_at = at;
      copy_ids(feature.window, ids);
      if (rows.offsets != nullptr)
        std::copy(feature.spans.begin(), feature.spans.end(), rows.offsets + 2 * (base + at));
    }
    std::fill_n(rows.token_types + base + at, length, piece.type);
    at += length;
  }
  const auto place = [&](int32_t token) {
    return static_cast<int32_t>(token == kNowhere ? cls_at : context_at + static_cast<size_t>(token));
  };
  rows.starts[row] = place(feature.first);
  rows.ends[row] = place(feature.last);
  rows.cls_index[row] = static_cast<int32_t>(cls_at);
}

}  // namespace

size_t fill_feature_rows(const FeatureLayout& layout, const FeatureTables& tables,
                         std::span<const int64_t> wanted, std::span<const int64_t> places,
                         const FeatureRows& rows) {
  const size_t count = std::min(wanted.size(), places.size());
  for (size_t i = 0; i < count; ++i) {
    const std::optional<Feature> feature = find_feature(tables, wanted[i]);
    if (!feature || places[i] < 0 || static_cast<uint64_t>(places[i]) >= rows.rows) return i;
    size_t used = 0;
    for (const LayoutPiece& piece : layout.pieces) used += length_of(piece, *feature);
    if (used > rows.width) return i;
    write_row(layout, *feature, used, static_cast<size_t>(places[i]), rows);
  }
  return count;
}

}  // namespace krill::qa
