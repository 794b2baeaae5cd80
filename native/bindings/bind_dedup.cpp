#include <nanobind/nanobind.h>

#include <mutex>

#include "bindings/arrays.hpp"
#include "dedup/hash.hpp"
#include "dedup/hash_set.hpp"
#include "dedup/partition.hpp"

namespace nb = nanobind;
using namespace krill;
using namespace krill::bindings;

namespace {

using HashesIn = nb::ndarray<const std::uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using HashesOut = nb::ndarray<nb::numpy, std::uint64_t, nb::shape<-1, 2>>;

const Hash* hashes_of(const HashesIn& hashes) { return reinterpret_cast<const Hash*>(hashes.data()); }

HashesOut to_numpy(Buffer<Hash> buffer) {
  Hash* data = buffer.data();
  const std::size_t size = buffer.size();
  return HashesOut(data, {size, 2}, owner_of(std::move(buffer)));
}

// Without the GIL two threads may meet in one table; they take turns.
class SharedHashSet {
 public:
  explicit SharedHashSet(std::size_t capacity_bytes) : set_(capacity_bytes) {}

  Out<std::uint8_t> insert(const HashesIn& hashes) {
    Buffer<std::uint8_t> first(hashes.shape(0));
    {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      set_.insert(hashes_of(hashes), first.size(), first.data());
    }
    return bindings::to_numpy(std::move(first));
  }

  std::size_t size() const { return set_.size(); }
  std::size_t nbytes() const { return set_.nbytes(); }
  std::size_t max_keys() const { return set_.max_keys(); }

 private:
  HashSet set_;
  std::mutex mutex_;
};

HashesOut hash_column(const In<std::int64_t>& offsets, nb::handle data, std::uint32_t seed) {
  const ByteView bytes(data);
  const TextColumn column = text_column(offsets, bytes);
  Buffer<Hash> hashes = [&] {
    nb::gil_scoped_release release;
    return hash_documents(column, seed);
  }();
  return to_numpy(std::move(hashes));
}

nb::tuple partition(const HashesIn& hashes, unsigned shift, unsigned width) {
  const Digit digit{shift, width};
  digit.check();
  Partitioned result = [&] {
    nb::gil_scoped_release release;
    return partition_hashes(hashes_of(hashes), hashes.shape(0), digit);
  }();
  return nb::make_tuple(to_numpy(std::move(result.hashes)), bindings::to_numpy(std::move(result.counts)));
}

Out<std::uint8_t> join(const HashesIn& hashes, unsigned shift, unsigned width, const In<std::uint8_t>& flags) {
  const Digit digit{shift, width};
  digit.check();
  if (flags.size() != hashes.shape(0)) throw std::invalid_argument("there must be one flag for each hash");
  Buffer<std::uint8_t> joined = [&] {
    nb::gil_scoped_release release;
    return join_flags(hashes_of(hashes), hashes.shape(0), digit, flags.data());
  }();
  return bindings::to_numpy(std::move(joined));
}

}  // namespace

void bind_dedup(nb::module_& m) {
  nb::exception<TableFull>(m, "TableFull", PyExc_MemoryError);
  m.def("hash_documents", &hash_column, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("seed") = 0);
  m.def("partition_hashes", &partition, nb::arg("hashes").noconvert(), nb::arg("shift"), nb::arg("width"));
  m.def("join_flags", &join, nb::arg("hashes").noconvert(), nb::arg("shift"), nb::arg("width"),
        nb::arg("flags").noconvert());
  nb::class_<SharedHashSet>(m, "HashSet")
      .def(nb::init<std::size_t>(), nb::arg("capacity_bytes"))
      .def("insert", &SharedHashSet::insert, nb::arg("hashes").noconvert())
      .def("__len__", &SharedHashSet::size)
      .def_prop_ro("nbytes", &SharedHashSet::nbytes)
      .def_prop_ro("max_keys", &SharedHashSet::max_keys);
}
