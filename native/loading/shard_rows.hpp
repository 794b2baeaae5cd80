// Rows of a Krill dataset by number: found by arithmetic, read straight into the result.
//
// Holds eight bytes for each record batch, the paths, at most `kMostOpen` descriptors, and the indexes of
// recently used record batches, at most `cache_bytes` of them. Tokens only where shards are mapped: then
// every page that was read. Any number of threads may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "buffer.hpp"
#include "loading/batch_index.hpp"
#include "loading/block_pool.hpp"
#include "loading/shard_file.hpp"

namespace krill::loading {

// The shards, from the manifest. Batches of all shards follow each other.
struct ShardTable {
  std::vector<std::string> paths;
  std::vector<int64_t> sizes;          // bytes of each file
  std::vector<int64_t> row_starts;     // the first row of each shard, and the number of all rows
  std::vector<int64_t> batch_offsets;  // where each record batch begins in its file
  int64_t rows_per_batch;
  RowShape shape;
};

// Row `i` is `tokens[offsets[i], offsets[i + 1])`, counted in tokens; its documents have the lengths
// `seq_lengths[seq_offsets[i], seq_offsets[i + 1])`. Its labels are int32, as many; empty where shards have
// none.
struct GatheredRows {
  PooledBlock tokens;
  PooledBlock labels;
  Buffer<int64_t> offsets;
  Buffer<int32_t> seq_lengths;
  Buffer<int32_t> seq_offsets;
};

class ShardRows {
 public:
  // As many as the blocks of a window of the default order, which may all be in different shards.
  static constexpr size_t kMostOpen = 256;

  // Throws std::invalid_argument for a table that contradicts itself.
  ShardRows(ShardTable table, size_t cache_bytes, bool mapped, std::shared_ptr<BlockPool> pool);
  ShardRows(const ShardRows&) = delete;
  ShardRows& operator=(const ShardRows&) = delete;

  // Rows in the order asked for. Throws UnreadableFile for a file that can't be read or is not as the table
  // says, std::invalid_argument for a row that is not there. Without `with_tokens` only the lengths are
  // read.
  GatheredRows gather(const int64_t* rows, size_t count, bool with_tokens = true);

  // The current size of the cached indexes.
  size_t cached_bytes();

 private:
  // The position of a row: its shard, its record batch (among all), its number in the batch.
  struct Place {
    size_t shard;
    size_t batch;
    int64_t row;
  };
  // The file and index that a row is read from, held while it is read.
  struct Located {
    Place place;
    std::shared_ptr<const ShardFile> file;
    std::shared_ptr<const BatchIndex> index;
  };
  using Indexes = std::list<std::pair<size_t, std::shared_ptr<const BatchIndex>>>;

  std::vector<Located> locate(const int64_t* rows, size_t count);
  void read_column(const std::vector<Located>& located, const Buffer<int64_t>& offsets,
                   int64_t BatchIndex::* at, int64_t itemsize, uint8_t* out) const;
  Place place(int64_t row, size_t near) const;
  std::shared_ptr<const ShardFile> file(size_t shard);
  void check_size(size_t shard, int descriptor) const;
  std::shared_ptr<const BatchIndex> index(const Place& place, const ShardFile& file);
  std::shared_ptr<const BatchIndex> recall(size_t batch);
  BatchIndex read_index(const Place& place, const ShardFile& file) const;
  void remember(size_t batch, std::shared_ptr<const BatchIndex> index);

  ShardTable table_;
  std::vector<int64_t> batch_starts_;  // the first batch of each shard, and the number of all
  size_t cache_bytes_;
  bool mapped_;
  std::shared_ptr<BlockPool> pool_;

  std::mutex mutex_;  // of all that follows
  std::vector<std::shared_ptr<const ShardFile>> files_;
  std::list<size_t> open_;  // those with a descriptor, the oldest first
  Indexes indexes_;         // the most recently used first
  std::unordered_map<size_t, Indexes::iterator> by_batch_;
  size_t cached_ = 0;
};

}  // namespace krill::loading
