#include <nanobind/nanobind.h>

#include <mutex>

#include "bindings/arrays.hpp"
#include "bindings/hashes.hpp"
#include "dedup/components.hpp"
#include "dedup/min_table.hpp"
#include "dedup/minhash.hpp"
#include "dedup/set_file.hpp"

namespace krill::bindings {

namespace {

using BandsOut = nb::ndarray<nb::numpy, uint64_t, nb::ndim<2>>;

BandsOut bands(const In<int64_t>& offsets, nb::handle data, size_t band_count, size_t rows, size_t ngram) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  const dedup::MinHasher hasher(band_count, rows, ngram);
  Buffer<uint64_t> result = without_gil([&] { return hasher.bands_of(column); });
  uint64_t* numbers = result.data();
  return BandsOut(numbers, {column.rows, band_count}, owner_of(std::move(result)));
}

nb::tuple sets(const In<int64_t>& offsets, nb::handle data, size_t ngram) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  dedup::ShingleSets result = without_gil([&] { return dedup::shingle_sets(column, ngram); });
  return nb::make_tuple(to_numpy(std::move(result.shingles)), to_numpy(std::move(result.offsets)));
}

nb::tuple folded(const In<int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  dedup::FoldedText result = without_gil([&] { return dedup::folded_text(column); });
  return nb::make_tuple(to_numpy(std::move(result.offsets)), to_numpy(std::move(result.bytes)));
}

Out<double> shares(int index, int data, const HashesIn& pairs) {
  Buffer<double> result(pairs.shape(0));
  {
    nb::gil_scoped_release release;
    jaccard({index, data}, hashes_of(pairs), result.size(), result.data());
  }
  return to_numpy(std::move(result));
}

// Without the GIL two threads may meet in one table; they take turns.
class SharedMinTable {
 public:
  explicit SharedMinTable(size_t capacity_bytes) : table_(capacity_bytes) {}

  Out<uint64_t> fold(const HashesIn& records) {
    Buffer<uint64_t> least(records.shape(0));
    {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      table_.fold(hashes_of(records), least.size(), least.data());
    }
    return to_numpy(std::move(least));
  }

  size_t size() const { return table_.size(); }
  size_t max_keys() const { return table_.max_keys(); }

 private:
  dedup::MinTable table_;
  std::mutex mutex_;
};

class SharedComponents {
 public:
  explicit SharedComponents(uint64_t documents) : components_(documents) {}

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

  uint64_t members() {
    nb::gil_scoped_release release;
    const std::lock_guard lock(mutex_);
    return components_.members();
  }

  nb::tuple count(uint64_t prior) {
    const dedup::Components::Summary summary = [&] {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      return components_.count(prior);
    }();
    return nb::make_tuple(summary.clusters, summary.largest);
  }

  nb::tuple labels(uint64_t first, size_t count) {
    Buffer<uint64_t> smallest(count);
    Buffer<uint32_t> sizes(count);
    {
      nb::gil_scoped_release release;
      const std::lock_guard lock(mutex_);
      components_.labels(first, count, smallest.data(), sizes.data());
    }
    return nb::make_tuple(to_numpy(std::move(smallest)), to_numpy(std::move(sizes)));
  }

 private:
  dedup::Components components_;
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
      .def(nb::init<size_t>(), nb::arg("capacity_bytes"))
      .def("fold", &SharedMinTable::fold, nb::arg("records").noconvert())
      .def("__len__", &SharedMinTable::size)
      .def_prop_ro("max_keys", &SharedMinTable::max_keys);
  nb::class_<SharedComponents>(m, "Components")
      .def(nb::init<uint64_t>(), nb::arg("documents"))
      .def("mark", &SharedComponents::mark, nb::arg("edges").noconvert())
      .def("join", &SharedComponents::join, nb::arg("edges").noconvert())
      .def_prop_ro("members", &SharedComponents::members)
      .def("count", &SharedComponents::count, nb::arg("prior"))
      .def("labels", &SharedComponents::labels, nb::arg("first"), nb::arg("count"));
}

}  // namespace krill::bindings
