// Arrays of 128-bit hashes, and of records that have their form: two numbers a row.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "bindings/arrays.hpp"
#include "dedup/hash.hpp"

namespace krill::bindings {

using HashesIn = nb::ndarray<const uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using HashesOut = nb::ndarray<nb::numpy, uint64_t, nb::shape<-1, 2>>;

inline const dedup::Hash* hashes_of(const HashesIn& hashes) {
  return reinterpret_cast<const dedup::Hash*>(hashes.data());
}

inline HashesOut to_numpy(Buffer<dedup::Hash> buffer) {
  dedup::Hash* data = buffer.data();
  const size_t size = buffer.size();
  return HashesOut(data, {size, 2}, owner_of(std::move(buffer)));
}

}  // namespace krill::bindings
