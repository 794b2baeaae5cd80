// Drives packing with lengths and row widths taken from the input, holds it to a slow and obvious version,
// and aborts where they differ.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <stdexcept>
#include <utility>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "pack/piece_reader.hpp"
#include "pack/token_batch.hpp"
#include "pack/window.hpp"

namespace krill::fuzz {

using Piece = std::pair<int64_t, int32_t>;  // where it begins, its length
using PieceRows = std::vector<std::vector<Piece>>;

inline PieceRows rows_of_their_own(const std::vector<uint32_t>& lengths, uint32_t width) {
  PieceRows rows;
  int64_t start = 0;
  for (const uint32_t length : lengths) {
    for (uint32_t at = 0; at < length; at += std::min(width, length - at))
      rows.push_back({{start + at, static_cast<int32_t>(std::min(width, length - at))}});
    start += length;
  }
  return rows;
}

inline PieceRows best_fit_rows(const std::vector<uint32_t>& lengths, uint32_t width) {
  PieceRows pieces = rows_of_their_own(lengths, width);
  std::stable_sort(pieces.begin(), pieces.end(),
                   [](const auto& a, const auto& b) { return a[0].second > b[0].second; });
  PieceRows rows;
  std::map<int64_t, std::deque<size_t>> by_room;
  for (const auto& piece : pieces) {
    const int64_t length = piece[0].second;
    const auto found = by_room.lower_bound(length);
    int64_t room = width;
    size_t row = rows.size();
    if (found == by_room.end()) {
      rows.emplace_back();
    } else {
      room = found->first;
      row = found->second.front();
      found->second.pop_front();
      if (found->second.empty()) by_room.erase(found);
    }
    rows[row].push_back(piece[0]);
    if (room > length) by_room[room - length].push_back(row);
  }
  return rows;
}

inline void fuzz_window(Settings settings, bool best_fit) {
  const uint32_t width = 1 + settings.next() * (1u + settings.next() % 32);
  const uint32_t scale = 1 + settings.next() % 64;
  const uint8_t from = settings.next();
  const uint8_t many = settings.next();
  std::vector<uint32_t> lengths(settings.rest(), settings.rest() + settings.rest_size());
  for (uint32_t& length : lengths) length *= scale;
  const PieceRows expected = best_fit ? best_fit_rows(lengths, width) : rows_of_their_own(lengths, width);

  const pack::PackedWindow window(lengths.data(), lengths.size(), width, best_fit);
  expect(window.rows() == expected.size(), "window: rows");
  const size_t first = from % (expected.size() + 1);
  const size_t count = many % (expected.size() - first + 1);
  const pack::Pieces pieces = window.pieces(first, count);
  size_t at = 0;
  for (size_t row = 0; row < count; ++row) {
    for (const Piece& piece : expected[first + row]) {
      expect(at < pieces.starts.size() && pieces.starts[at] == piece.first, "window: where a piece begins");
      expect(pieces.lengths[at++] == piece.second, "window: a piece's length");
    }
    expect(static_cast<size_t>(pieces.row_offsets[row + 1]) == at, "window: where a row ends");
  }
  try {
    (void)window.pieces(first, expected.size() - first + 1);
    expect(false, "window: a row that is not there");
  } catch (const std::out_of_range&) {
  }
}

inline void fuzz_beginnings(Settings settings) {
  const uint16_t first = settings.next();
  const Column column = cut_column(settings);
  const pack::TokenBatch<uint16_t> runs = pack::encode_bytes(column.view(), 256);
  std::vector<uint16_t> expected;
  for (size_t row = 0; row < column.rows(); ++row) {
    expected.push_back(first);
    for (const char byte : column.row(row)) expected.push_back(static_cast<uint8_t>(byte));
    expected.push_back(256);
  }
  const pack::TokenBatch<uint16_t> begun =
      pack::prepend_token(runs.ids.data(), runs.ids.size(), runs.lengths.data(), runs.lengths.size(), first);
  expect(std::vector(begun.ids.data(), begun.ids.data() + begun.ids.size()) == expected, "beginnings: ids");
  for (size_t row = 0; row < column.rows(); ++row)
    expect(begun.lengths[row] == runs.lengths[row] + 1, "beginnings: lengths");
}

// Numbers that make no sense are refused before anything is read.
inline void fuzz_piece_reader(Settings settings) {
  pack::PieceReader reader({"/dev/zero", "/dev/null"});
  std::vector<uint32_t> files;
  std::vector<int64_t> offsets;
  std::vector<int64_t> sizes;
  while (settings.rest_size() >= 3) {
    files.push_back(settings.next() % 4);
    offsets.push_back(static_cast<int8_t>(settings.next()));
    sizes.push_back(static_cast<int8_t>(settings.next()));
  }
  std::vector<uint8_t> out(settings.next(), 1);
  try {
    reader.read(files.data(), offsets.data(), sizes.data(), files.size(), out.data(), out.size());
    expect(std::count(out.begin(), out.end(), 0) == static_cast<ptrdiff_t>(out.size()), "pieces: filled");
  } catch (const std::invalid_argument&) {
  } catch (const pack::UnreadableFile& fault) {
    expect(fault.file == 1, "pieces: the wrong file");
  }
}

inline void fuzz_pack(const uint8_t* data, size_t size) {
  fuzz_window({data, size}, true);
  fuzz_window({data, size}, false);
  fuzz_beginnings({data, size});
  fuzz_piece_reader({data, size});
}

}  // namespace krill::fuzz
