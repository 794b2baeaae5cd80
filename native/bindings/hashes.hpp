// Arrays of 128-bit hashes, and of records that have their form: two numbers a row.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "bindings/arrays.hpp"
#include "dedup/hash.hpp"

namespace krill::bindings {

using HashesIn = nb::ndarray<const std::uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using HashesOut = nb::ndarray<nb::numpy, std::uint64_t, nb::shape<-1, 2>>;

inline const Hash* hashes_of(const HashesIn& hashes) { return reinterpret_cast<const Hash*>(hashes.data()); }

inline HashesOut to_numpy(Buffer<Hash> buffer) {
  Hash* data = buffer.data();
  const std::size_t size = buffer.size();
  return HashesOut(data, {size, 2}, owner_of(std::move(buffer)));
}

}  // namespace krill::bindings
