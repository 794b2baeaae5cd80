// Columns of strings for Python, end to end, with the offsets where the bytes of each begin: three arrays for
// each of ten thousand columns would take kilobytes a column.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "corpus/row_builder.hpp"

namespace krill::bindings {

inline nb::tuple to_joined(std::vector<corpus::Rows> columns) {
  corpus::Rows all;
  GrowingBuffer<int64_t> begins;
  begins.push_back(0);
  if (columns.size() == 1) {  // without a copy, which may be of a whole long document
    all = std::move(columns[0]);
    begins.push_back(static_cast<int64_t>(all.bytes.size()));
    columns.clear();
  }
  for (corpus::Rows& column : columns) {
    all.offsets.append(column.offsets.data(), column.offsets.size());
    all.bytes.append(column.bytes.data(), column.bytes.size());
    all.null_mask.append(column.null_mask.data(), column.null_mask.size());
    begins.push_back(static_cast<int64_t>(all.bytes.size()));
    column = {};
  }
  return nb::make_tuple(to_numpy(std::move(all.offsets)), to_numpy(std::move(all.bytes)),
                        to_numpy(std::move(all.null_mask)), to_numpy(std::move(begins)));
}

}  // namespace krill::bindings
