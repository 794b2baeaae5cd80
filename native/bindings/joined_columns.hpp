// Columns of strings on their way to Python, end to end, with where the bytes of each begin: three arrays for
// each of ten thousand columns would take kilobytes a column.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "text/row_builder.hpp"

namespace krill::bindings {

template <class T>
Out<T> to_array(text::GrowingBuffer<T> buffer) {
  buffer.shrink_to_fit();
  const std::size_t size = buffer.size();
  T* data = buffer.release();
  return Out<T>(data, {size}, owner_of(data));
}

inline nb::tuple to_joined(std::vector<text::Rows> columns) {
  text::Rows all;
  text::GrowingBuffer<std::int64_t> begins;
  begins.push_back(0);
  if (columns.size() == 1) {  // without a copy, which may be of a whole long document
    all = std::move(columns[0]);
    begins.push_back(static_cast<std::int64_t>(all.bytes.size()));
    columns.clear();
  }
  for (text::Rows& column : columns) {
    all.offsets.append(column.offsets.data(), column.offsets.size());
    all.bytes.append(column.bytes.data(), column.bytes.size());
    all.null_mask.append(column.null_mask.data(), column.null_mask.size());
    begins.push_back(static_cast<std::int64_t>(all.bytes.size()));
    column = {};
  }
  return nb::make_tuple(to_array(std::move(all.offsets)), to_array(std::move(all.bytes)),
                        to_array(std::move(all.null_mask)), to_array(std::move(begins)));
}

}  // namespace krill::bindings
