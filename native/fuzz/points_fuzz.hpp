// Drives sets of characters and the removal of lines, and aborts where they break their word: what was
// removed is not there any more, and nothing else is missing.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "fuzz/kernels_fuzz.hpp"
#include "growing_buffer.hpp"
#include "text/line_filter.hpp"
#include "text/point_set.hpp"
#include "url/hash_list.hpp"

namespace krill::fuzz {

inline void fuzz_points(const uint8_t* data, size_t size) {
  static std::array<uint8_t, text::PointSet::kPoints / 8> bits = [] {
    std::array<uint8_t, text::PointSet::kPoints / 8> some{};
    for (size_t point = 0; point < text::PointSet::kPoints; point += 3)
      some[point / 8] |= uint8_t(1 << point % 8);
    return some;
  }();
  const text::PointSet points(bits);
  GrowingBuffer<uint8_t> out;
  const size_t removed = points.remove_from(data, size, out);
  expect(points.any_in(data, size) == (removed > 0), "points: found and not removed");
  expect(out.size() + 4 * removed >= size && out.size() <= size, "points: more is missing than was removed");
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  url::HashList listed(1);
  const std::string_view line = input.substr(0, std::min(input.find('\n'), size));
  listed.add(line);
  listed.finish();
  GrowingBuffer<uint8_t> lines;
  const size_t dropped = text::remove_lines(input, size % 2 == 0 ? &points : nullptr, listed, lines);
  expect(lines.size() <= size && (dropped > 0 || lines.size() == size), "lines: something else is missing");
}

}  // namespace krill::fuzz
