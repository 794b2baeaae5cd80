#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/errors.hpp"
#include "loading/block_pool.hpp"
#include "loading/columns.hpp"
#include "loading/row_order.hpp"
#include "loading/shard_rows.hpp"

namespace krill::bindings {

namespace {

using AnyTokens = nb::ndarray<nb::ro, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Pool = std::shared_ptr<loading::BlockPool>;

template <class T>
std::vector<T> to_vector(const In<T>& values) {
  return {values.data(), values.data() + values.size()};
}

nb::capsule block_owner(loading::PooledBlock block) {
  auto owned = std::make_unique<loading::PooledBlock>(std::move(block));
  nb::capsule owner(owned.get(),
                    [](void* memory) noexcept { delete static_cast<loading::PooledBlock*>(memory); });
  (void)owned.release();
  return owner;
}

// ---- the order

Out<int64_t> shuffled_rows(uint64_t rows, uint64_t block_rows, uint64_t window, const In<uint64_t>& key,
                           uint64_t start, uint64_t stop) {
  const loading::RowOrder order{rows, block_rows, window, to_vector(key)};
  if (stop < start || stop > rows) throw std::invalid_argument("there are not so many rows");
  Buffer<int64_t> found(stop - start);
  {
    nb::gil_scoped_release release;
    order.write(start, stop - start, found.data());
  }
  return to_numpy(std::move(found));
}

// ---- rows

void make_shard_rows(loading::ShardRows* place, const std::vector<nb::bytes>& paths, const In<int64_t>& sizes,
                     const In<int64_t>& row_starts, const In<int64_t>& batch_offsets, int64_t rows_per_batch,
                     int64_t width, int64_t itemsize, bool fixed, int64_t more, uint64_t cache_bytes,
                     bool mapped, const Pool& pool) {
  std::vector<std::string> names;
  names.reserve(paths.size());
  for (const nb::bytes& path : paths) names.emplace_back(path.c_str(), path.size());
  new (place)
      loading::ShardRows({std::move(names), to_vector(sizes), to_vector(row_starts), to_vector(batch_offsets),
                          rows_per_batch, loading::RowShape{width, itemsize, fixed, more}},
                         cache_bytes, mapped, pool);
}

nb::tuple gather(loading::ShardRows& shards, const In<int64_t>& rows, bool with_tokens) {
  loading::GatheredRows found =
      without_gil([&] { return shards.gather(rows.data(), rows.size(), with_tokens); });
  uint8_t* tokens = found.tokens.data();
  const size_t size = found.tokens.size();
  auto* labels = reinterpret_cast<int32_t*>(found.labels.data());
  const size_t label_count = found.labels.size() / sizeof(int32_t);
  return nb::make_tuple(Out<uint8_t>(tokens, {size}, block_owner(std::move(found.tokens))),
                        Out<int32_t>(labels, {label_count}, block_owner(std::move(found.labels))),
                        to_numpy(std::move(found.offsets)), to_numpy(std::move(found.seq_lengths)),
                        to_numpy(std::move(found.seq_offsets)));
}

// ---- columns

loading::TokenType token_type(const nb::dlpack::dtype& type) {
  if (type == nb::dtype<uint8_t>()) return loading::TokenType::kU8;
  if (type == nb::dtype<uint16_t>()) return loading::TokenType::kU16;
  if (type == nb::dtype<uint32_t>()) return loading::TokenType::kU32;
  if (type == nb::dtype<uint64_t>()) return loading::TokenType::kU64;
  if (type == nb::dtype<int32_t>()) return loading::TokenType::kI32;
  if (type == nb::dtype<int64_t>()) return loading::TokenType::kI64;
  throw std::invalid_argument("tokens must be integers of a type that datasets have");
}

template <class T>
nb::object to_table(loading::PooledBlock block, size_t rows, size_t width) {
  T* data = reinterpret_cast<T*>(block.data());
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<2>>(data, {rows, width}, block_owner(std::move(block))));
}

// The columns that are asked for, in memory of the pool.
class PooledColumns {
 public:
  PooledColumns(Pool pool, size_t rows, size_t width) : pool_(std::move(pool)), rows_(rows), width_(width) {
    if (rows > (size_t{1} << 60) / width / sizeof(int64_t)) throw std::bad_alloc();
  }

  void* add(bool wanted, bool wide) {
    if (!wanted) return nullptr;
    blocks_.emplace_back(
        loading::PooledBlock(pool_, rows_ * width_ * (wide ? sizeof(int64_t) : sizeof(int32_t))), wide);
    return blocks_.back().first.data();
  }

  nb::list arrays() {
    nb::list made;
    for (auto& [block, wide] : blocks_)
      made.append(wide ? to_table<int64_t>(std::move(block), rows_, width_)
                       : to_table<int32_t>(std::move(block), rows_, width_));
    return made;
  }

 private:
  Pool pool_;
  size_t rows_;
  size_t width_;
  std::vector<std::pair<loading::PooledBlock, bool>> blocks_;
};

nb::list make_columns(const Pool& pool, const AnyTokens& tokens, const In<int32_t>& given,
                      const In<int64_t>& offsets, const In<int32_t>& seq_lengths,
                      const In<int32_t>& seq_offsets, uint64_t width, int64_t pad, bool wide, int labels,
                      bool segments, bool positions, bool mask) {
  if (offsets.size() == 0 || seq_offsets.size() != offsets.size())
    throw std::invalid_argument("there must be one offset more than rows, twice");
  if (labels < 0 || labels > 2 || width == 0 || width > (uint64_t{1} << 31))
    throw std::invalid_argument("there are no such labels, or no such width");
  if (given.size() != 0 && given.size() != tokens.size())
    throw std::invalid_argument("there must be one label for each token, or none");
  const size_t rows = offsets.size() - 1;
  const loading::TokenRows in{tokens.data(),
                              token_type(tokens.dtype()),
                              tokens.size(),
                              given.size() == 0 ? nullptr : given.data(),
                              offsets.data(),
                              seq_lengths.data(),
                              seq_lengths.size(),
                              seq_offsets.data(),
                              rows};
  PooledColumns made(pool, rows, width);
  const auto kind = static_cast<loading::Labels>(labels);
  const bool wide_labels = kind == loading::Labels::kUnshifted;
  loading::Columns out{};
  out.ids = made.add(true, wide);
  out.labels = made.add(kind != loading::Labels::kNone, wide_labels);
  out.segments = made.add(segments, wide);
  out.positions = made.add(positions, wide);
  out.mask = made.add(mask, wide);
  out.width = width;
  out.pad = pad;
  out.kind = kind;
  out.wide_ids = wide;
  out.wide_labels = wide_labels;
  {
    nb::gil_scoped_release release;
    loading::write_columns(in, out);
  }
  return made.arrays();
}

}  // namespace

void bind_loading(nb::module_& m) {
  bind_error<loading::BadRow>(m, "BadRow", PyExc_ValueError, [](const loading::BadRow& error) {
    return nb::make_tuple(error.row, nb::str(error.what()));
  });
  m.def("shuffled_rows", &shuffled_rows, nb::arg("rows"), nb::arg("block_rows"), nb::arg("window"),
        nb::arg("key").noconvert(), nb::arg("start"), nb::arg("stop"));
  nb::class_<loading::BlockPool>(m, "BlockPool").def(nb::init<size_t>(), nb::arg("most_free"));
  nb::class_<loading::ShardRows>(m, "ShardRows")
      .def("__init__", &make_shard_rows, nb::arg("paths"), nb::arg("sizes").noconvert(),
           nb::arg("row_starts").noconvert(), nb::arg("batch_offsets").noconvert(), nb::arg("rows_per_batch"),
           nb::arg("width"), nb::arg("itemsize"), nb::arg("fixed"), nb::arg("more"), nb::arg("cache_bytes"),
           nb::arg("mapped"), nb::arg("pool"))
      .def("gather", &gather, nb::arg("rows").noconvert(), nb::arg("with_tokens") = true)
      .def_prop_ro("cached_bytes", &loading::ShardRows::cached_bytes);
  m.def("make_columns", &make_columns, nb::arg("pool"), nb::arg("tokens").noconvert(),
        nb::arg("labels_given").noconvert(), nb::arg("offsets").noconvert(),
        nb::arg("seq_lengths").noconvert(), nb::arg("seq_offsets").noconvert(), nb::arg("width"),
        nb::arg("pad"), nb::arg("wide"), nb::arg("labels"), nb::arg("segments"), nb::arg("positions"),
        nb::arg("mask"));
}

}  // namespace krill::bindings
