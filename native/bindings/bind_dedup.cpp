#include <nanobind/nanobind.h>

#include <mutex>
#include <string_view>

#include "bindings/arrays.hpp"
#include "bindings/hashes.hpp"
#include "dedup/bloom.hpp"
#include "dedup/hash.hpp"
#include "dedup/hash_set.hpp"
#include "dedup/partition.hpp"
#include "dedup/pieces.hpp"

namespace krill::bindings {

namespace {

// Without the GIL two threads may meet in one table; they take turns.
class SharedHashSet {
 public:
  explicit SharedHashSet(size_t capacity_bytes) : set_(capacity_bytes) {}

  Out<uint8_t> insert(const HashesIn& hashes) {
    Buffer<uint8_t> first(hashes.shape(0));
    {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      set_.insert(hashes_of(hashes), first.size(), first.data());
    }
    return to_numpy(std::move(first));
  }

  size_t size() const { return set_.size(); }
  size_t nbytes() const { return set_.nbytes(); }
  size_t max_keys() const { return set_.max_keys(); }

 private:
  dedup::HashSet set_;
  std::mutex mutex_;
};

class SharedBloomFilter {
 public:
  SharedBloomFilter(size_t blocks, unsigned bits) : filter_(blocks, bits) {}

  Out<uint8_t> insert(const HashesIn& hashes) {
    Buffer<uint8_t> first(hashes.shape(0));
    {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      filter_.insert(hashes_of(hashes), first.size(), first.data());
    }
    return to_numpy(std::move(first));
  }

  size_t nbytes() const { return filter_.nbytes(); }

 private:
  dedup::BloomFilter filter_;
  std::mutex mutex_;
};

dedup::Level level_of(const char* name) {
  const std::string_view level(name);
  if (level == "line") return dedup::Level::line;
  if (level == "paragraph") return dedup::Level::paragraph;
  throw std::invalid_argument("a level is `line` or `paragraph`");
}

nb::tuple hash_pieces(const In<int64_t>& offsets, nb::handle data, const char* level) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  const dedup::Level pieces = level_of(level);
  dedup::PieceHashes result = without_gil([&] { return piece_hashes(column, pieces); });
  return nb::make_tuple(to_numpy(std::move(result.hashes)), to_numpy(std::move(result.counts)));
}

nb::tuple select_pieces(const In<int64_t>& offsets, nb::handle data, const char* level,
                        const In<uint8_t>& flags) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  const dedup::Level pieces = level_of(level);
  dedup::KeptPieces kept =
      without_gil([&] { return keep_pieces(column, pieces, flags.data(), flags.size()); });
  return nb::make_tuple(to_numpy(std::move(kept.offsets)), to_numpy(std::move(kept.data)));
}

HashesOut hash_column(const In<int64_t>& offsets, nb::handle data, uint32_t seed) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  return to_numpy(without_gil([&] { return dedup::hash_documents(column, seed); }));
}

nb::tuple partition(const HashesIn& hashes, unsigned shift, unsigned width) {
  const dedup::Digit digit{shift, width};
  digit.check();
  dedup::Partitioned result =
      without_gil([&] { return partition_hashes(hashes_of(hashes), hashes.shape(0), digit); });
  return nb::make_tuple(to_numpy(std::move(result.hashes)), to_numpy(std::move(result.counts)));
}

Out<uint8_t> join(const HashesIn& hashes, unsigned shift, unsigned width, const In<uint8_t>& flags) {
  const dedup::Digit digit{shift, width};
  digit.check();
  if (flags.size() != hashes.shape(0)) throw std::invalid_argument("there must be one flag for each hash");
  Buffer<uint8_t> joined =
      without_gil([&] { return dedup::join_flags(hashes_of(hashes), hashes.shape(0), digit, flags.data()); });
  return to_numpy(std::move(joined));
}

}  // namespace

void bind_dedup(nb::module_& m) {
  nb::exception<dedup::TableFull>(m, "TableFull", PyExc_MemoryError);
  m.def("hash_documents", &hash_column, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("seed") = 0);
  m.def("partition_hashes", &partition, nb::arg("hashes").noconvert(), nb::arg("shift"), nb::arg("width"));
  m.def("join_flags", &join, nb::arg("hashes").noconvert(), nb::arg("shift"), nb::arg("width"),
        nb::arg("flags").noconvert());
  nb::class_<SharedHashSet>(m, "HashSet")
      .def(nb::init<size_t>(), nb::arg("capacity_bytes"))
      .def("insert", &SharedHashSet::insert, nb::arg("hashes").noconvert())
      .def("__len__", &SharedHashSet::size)
      .def_prop_ro("nbytes", &SharedHashSet::nbytes)
      .def_prop_ro("max_keys", &SharedHashSet::max_keys);
  nb::class_<SharedBloomFilter>(m, "BloomFilter")
      .def(nb::init<size_t, unsigned>(), nb::arg("blocks"), nb::arg("bits"))
      .def("insert", &SharedBloomFilter::insert, nb::arg("hashes").noconvert())
      .def_prop_ro("nbytes", &SharedBloomFilter::nbytes);
  m.def("piece_hashes", &hash_pieces, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("level"));
  m.def("keep_pieces", &select_pieces, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("level"),
        nb::arg("flags").noconvert());
}

}  // namespace krill::bindings
