// Drives features with tables and layouts taken from the input: sound ones are held to a slow and obvious
// version, and others are refused or written inside their rows. Aborts where something differs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "qa/feature_rows.hpp"

namespace krill::fuzz {

// A unit with one context, one question and some features on it; all vectors are of the exact size, so that a
// sanitizer sees their ends.
struct FuzzedUnit {
  std::vector<int32_t> example, begin, length, first, last, paragraph;
  std::vector<int64_t> question_starts, context_starts;
  std::vector<uint32_t> question_ids, context_ids;
  std::vector<int32_t> context_spans;

  qa::FeatureTables tables() const {
    return {example,         begin,        length,         first,       last,         paragraph,
            question_starts, question_ids, context_starts, context_ids, context_spans};
  }
};

inline FuzzedUnit sound_unit(Settings& settings) {
  FuzzedUnit unit;
  const int32_t asked = settings.next() % 8;
  const int32_t tokens = settings.next() % 16;
  for (int32_t n = 0; n < asked; ++n) unit.question_ids.push_back(100u + static_cast<uint32_t>(n));
  for (int32_t n = 0; n < tokens; ++n) {
    unit.context_ids.push_back(200u + static_cast<uint32_t>(n));
    unit.context_spans.insert(unit.context_spans.end(), {2 * n, 2 * n + 1});
  }
  unit.paragraph = {0};
  unit.question_starts = {0, asked};
  unit.context_starts = {0, tokens};
  for (int features = settings.next() % 4; features > 0; --features) {
    const int32_t begin = settings.next() % (tokens + 1);
    const int32_t length = settings.next() % (tokens - begin + 1);
    unit.example.push_back(0);
    unit.begin.push_back(begin);
    unit.length.push_back(length);
    unit.first.push_back(settings.next() % (length + 1) - 1);
    unit.last.push_back(settings.next() % (length + 1) - 1);
  }
  return unit;
}

// One number of the tables becomes another, up to the ends of its type.
inline bool damage(FuzzedUnit& unit, Settings& settings) {
  std::vector<int32_t>* small[] = {&unit.example, &unit.begin, &unit.length,
                                   &unit.first,   &unit.last,  &unit.paragraph};
  std::vector<int64_t>* large[] = {&unit.question_starts, &unit.context_starts};
  const int which = settings.next() % 16;
  const int64_t values[] = {-1, -2, 1, 17, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN};
  const int64_t value = values[settings.next() % 8];
  if (which < 6) {
    if (small[which]->empty()) return false;
    (*small[which])[settings.next() % small[which]->size()] = static_cast<int32_t>(value);
  } else if (which < 8) {
    (*large[which - 6])[settings.next() % 2] = value;
  } else if (which == 8) {
    unit.context_spans.resize(unit.context_spans.size() / 2);
  } else {
    return false;
  }
  return true;
}

struct FuzzedRows {
  std::vector<int32_t> ids, mask, types, starts, ends, cls, offsets;
  size_t rows, width;

  FuzzedRows(size_t count, size_t wide)
      : ids(count * wide, -7),
        mask(count * wide),
        types(count * wide),
        starts(count),
        ends(count),
        cls(count),
        offsets(2 * count * wide),
        rows(count),
        width(wide) {}
  qa::FeatureRows out() {
    return {ids.data(), mask.data(),    types.data(), starts.data(), ends.data(),
            cls.data(), offsets.data(), rows,         width};
  }
};

// The ids of a feature, one token after the other.
inline std::vector<int32_t> slow_ids(const qa::FeatureLayout& layout, const FuzzedUnit& unit,
                                     size_t feature) {
  std::vector<int32_t> ids;
  for (const qa::LayoutPiece& piece : layout.pieces) {
    if (piece.kind == qa::PieceKind::kFixed) ids.insert(ids.end(), piece.ids.begin(), piece.ids.end());
    if (piece.kind == qa::PieceKind::kQuestion)
      ids.insert(ids.end(), unit.question_ids.begin(), unit.question_ids.end());
    if (piece.kind == qa::PieceKind::kContext)
      for (int32_t n = 0; n < unit.length[feature]; ++n) ids.push_back(200 + unit.begin[feature] + n);
  }
  return ids;
}

inline void fuzz_feature_rows(Settings settings) {
  qa::FeatureLayout layout;
  layout.pad_left = settings.next() % 2 == 0;
  layout.pieces = {{qa::PieceKind::kFixed, 0, {1, 2}},
                   {qa::PieceKind::kQuestion, 0, {}},
                   {qa::PieceKind::kFixed, 1, {3}},
                   {qa::PieceKind::kContext, 1, {}},
                   {qa::PieceKind::kFixed, 2, {4}}};
  layout.cls_piece = settings.next() % 2 == 0 ? 4 : qa::kNoPiece;
  FuzzedUnit unit = sound_unit(settings);
  const bool damaged = damage(unit, settings);
  const size_t width = settings.next() % 32;
  std::vector<int64_t> wanted, places;
  for (size_t feature = 0; feature < unit.example.size(); ++feature) {
    wanted.push_back(static_cast<int64_t>(feature));
    places.push_back(static_cast<int64_t>(unit.example.size() - 1 - feature));
  }
  if (settings.next() % 8 == 0) wanted.push_back(99), places.push_back(0);
  FuzzedRows rows(unit.example.size(), width);
  const size_t filled = fill_feature_rows(layout, unit.tables(), wanted, places, rows.out());
  expect(filled <= unit.example.size(), "features: more than there are");
  if (damaged) return;
  for (size_t feature = 0; feature < unit.example.size(); ++feature) {
    const std::vector<int32_t> ids = slow_ids(layout, unit, feature);
    if (feature >= filled) {
      expect(feature > filled || ids.size() > width, "features: one that fits is refused");
      break;
    }
    const auto row = static_cast<size_t>(places[feature]);
    const size_t begin = layout.pad_left ? width - ids.size() : 0;
    for (size_t at = 0; at < width; ++at) {
      const bool used = at >= begin && at < begin + ids.size();
      expect(rows.ids[row * width + at] == (used ? ids[at - begin] : -7), "features: ids");
      expect(rows.mask[row * width + at] == (used ? 1 : 0), "features: mask");
    }
    const size_t cls = layout.cls_piece == qa::kNoPiece ? 0 : begin + ids.size() - 1;
    expect(rows.cls[row] == static_cast<int32_t>(cls), "features: the classification token");
    const int32_t first = unit.first[feature];
    if (first == qa::kNowhere) expect(rows.starts[row] == rows.cls[row], "features: no answer");
    if (first != qa::kNowhere)
      expect(
          rows.ids[row * width + static_cast<size_t>(rows.starts[row])] == 200 + unit.begin[feature] + first,
          "features: the answer");
  }
}

inline void fuzz_qa(const uint8_t* data, size_t size) { fuzz_feature_rows({data, size}); }

}  // namespace krill::fuzz
