#include <nanobind/nanobind.h>

#include <mutex>

#include "bindings/arrays.hpp"
#include "bindings/hashes.hpp"
#include "dedup/components.hpp"
#include "dedup/min_table.hpp"
#include "dedup/minhash.hpp"
#include "dedup/set_file.hpp"

namespace nb = nanobind;
using namespace krill;
using namespace krill::bindings;

namespace {

using BandsOut = nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<2>>;

BandsOut bands(const In<std::int64_t>& offsets, nb::handle data, std::size_t band_count, std::size_t rows,
               std::size_t ngram) {
  const ByteView bytes(data);
  const TextColumn column = text_column(offsets, bytes);
  const MinHasher hasher(band_count, rows, ngram);
  Buffer<std::uint64_t> result = [&] {
    nb::gil_scoped_release release;
    return hasher.bands_of(column);
  }();
  std::uint64_t* numbers = result.data();
  return BandsOut(numbers, {column.rows, band_count}, owner_of(std::move(result)));
}

nb::tuple sets(const In<std::int64_t>& offsets, nb::handle data, std::size_t ngram) {
  const ByteView bytes(data);
  const TextColumn column = text_column(offsets, bytes);
  ShingleSets result = [&] {
    nb::gil_scoped_release release;
    return shingle_sets(column, ngram);
  }();
  return nb::make_tuple(bindings::to_numpy(std::move(result.shingles)),
                        bindings::to_numpy(std::move(result.offsets)));
}

nb::tuple folded(const In<std::int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const TextColumn column = text_column(offsets, bytes);
  FoldedText result = [&] {
    nb::gil_scoped_release release;
    return folded_text(column);
  }();
  return nb::make_tuple(bindings::to_numpy(std::move(result.offsets)),
                        bindings::to_numpy(std::move(result.bytes)));
}

Out<double> shares(int index, int data, const HashesIn& pairs) {
  Buffer<double> result(pairs.shape(0));
  {
    nb::gil_scoped_release release;
    jaccard({index, data}, hashes_of(pairs), result.size(), result.data());
  }
  return bindings::to_numpy(std::move(result));
}

// Without the GIL two threads may meet in one table; they take turns.
class SharedMinTable {
 public:
  explicit SharedMinTable(std::size_t capacity_bytes) : table_(capacity_bytes) {}

  Out<std::uint64_t> fold(const HashesIn& records) {
    Buffer<std::uint64_t> least(records.shape(0));
    {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      table_.fold(hashes_of(records), least.size(), least.data());
    }
    return bindings::to_numpy(std::move(least));
  }

  std::size_t size() const { return table_.size(); }
  std::size_t max_keys() const { return table_.max_keys(); }

 private:
  MinTable table_;
  std::mutex mutex_;
};

class SharedComponents {
 public:
  explicit SharedComponents(std::uint64_t documents) : components_(documents) {}

  void mark(const HashesIn& edges) {
    nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    components_.mark(hashes_of(edges), edges.shape(0));
  }

  void join(const HashesIn& edges) {
    nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    components_.join(hashes_of(edges), edges.shape(0));
  }

  std::uint64_t members() {
    nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    return components_.members();
  }

  nb::tuple count(std::uint64_t prior) {
    const Components::Summary summary = [&] {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      return components_.count(prior);
    }();
    return nb::make_tuple(summary.clusters, summary.largest);
  }

  nb::tuple labels(std::uint64_t first, std::size_t count) {
    Buffer<std::uint64_t> smallest(count);
    Buffer<std::uint32_t> sizes(count);
    {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      components_.labels(first, count, smallest.data(), sizes.data());
    }
    return nb::make_tuple(bindings::to_numpy(std::move(smallest)), bindings::to_numpy(std::move(sizes)));
  }

 private:
  Components components_;
  std::mutex mutex_;
};

}  // namespace

void bind_minhash(nb::module_& m) {
  m.def("minhash_bands", &bands, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("bands"),
        nb::arg("rows"), nb::arg("ngram"));
  m.def("shingle_sets", &sets, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("ngram"));
  m.def("folded_text", &folded, nb::arg("offsets").noconvert(), nb::arg("data"));
  m.def("jaccard", &shares, nb::arg("index"), nb::arg("data"), nb::arg("pairs").noconvert());
  nb::class_<SharedMinTable>(m, "MinTable")
      .def(nb::init<std::size_t>(), nb::arg("capacity_bytes"))
      .def("fold", &SharedMinTable::fold, nb::arg("records").noconvert())
      .def("__len__", &SharedMinTable::size)
      .def_prop_ro("max_keys", &SharedMinTable::max_keys);
  nb::class_<SharedComponents>(m, "Components")
      .def(nb::init<std::uint64_t>(), nb::arg("documents"))
      .def("mark", &SharedComponents::mark, nb::arg("edges").noconvert())
      .def("join", &SharedComponents::join, nb::arg("edges").noconvert())
      .def_prop_ro("members", &SharedComponents::members)
      .def("count", &SharedComponents::count, nb::arg("prior"))
      .def("labels", &SharedComponents::labels, nb::arg("first"), nb::arg("count"));
}
