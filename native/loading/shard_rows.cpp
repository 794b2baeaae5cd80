#include "loading/shard_rows.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "loading/batch_header.hpp"

namespace krill::loading {
namespace {

constexpr int64_t kEndOfStream = 8;                       // Arrow's marker, after the last batch
constexpr int kOpen = O_RDONLY | O_CLOEXEC | O_NONBLOCK;  // opening a pipe would wait for a writer

[[noreturn]] void refuse_table() { throw std::invalid_argument("the table of shards contradicts itself"); }

// The first batch of each shard, and the number of all.
std::vector<int64_t> batch_starts(const ShardTable& table) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const RowShape& shape = table.shape;
  if (table.sizes.size() != table.paths.size() || table.row_starts.size() != table.paths.size() + 1 ||
      table.row_starts[0] != 0 || table.rows_per_batch < 1 || table.rows_per_batch > kMost ||
      shape.width < 1 || shape.width > kMost || shape.itemsize < 1 || shape.itemsize > 8 || shape.more < 0 ||
      shape.more > 2)
    refuse_table();
  std::vector<int64_t> starts{0};
  for (size_t shard = 0; shard < table.paths.size(); ++shard) {
    if (table.row_starts[shard + 1] < table.row_starts[shard]) refuse_table();
    const int64_t rows = table.row_starts[shard + 1] - table.row_starts[shard];
    starts.push_back(starts.back() + rows / table.rows_per_batch + (rows % table.rows_per_batch != 0));
  }
  if (starts.back() != static_cast<int64_t>(table.batch_offsets.size())) refuse_table();
  return starts;
}

}  // namespace

ShardRows::ShardRows(ShardTable table, size_t cache_bytes, bool mapped, std::shared_ptr<BlockPool> pool)
    : table_(std::move(table)),
      batch_starts_(batch_starts(table_)),
      cache_bytes_(cache_bytes),
      mapped_(mapped),
      pool_(std::move(pool)),
      files_(table_.paths.size()) {}

GatheredRows ShardRows::gather(const int64_t* rows, size_t count, bool with_tokens) {
  const std::vector<Located> located = locate(rows, count);
  Buffer<int64_t> offsets(count + 1);
  Buffer<int32_t> seq_offsets(count + 1);
  int64_t tokens = 0;
  int64_t documents = 0;
  for (size_t i = 0; i < count; ++i) {
    offsets[i] = tokens;
    seq_offsets[i] = static_cast<int32_t>(documents);
    const auto& [place, file, index] = located[i];
    const auto row = static_cast<size_t>(place.row);
    tokens += index->token_offset(table_.shape, place.row + 1) - index->token_offset(table_.shape, place.row);
    documents += index->offsets[row + 1] - index->offsets[row];
    if (documents > std::numeric_limits<int32_t>::max())
      throw std::invalid_argument("there are more documents in these rows than can be counted");
  }
  offsets[count] = tokens;
  seq_offsets[count] = static_cast<int32_t>(documents);

  Buffer<int32_t> seq_lengths(static_cast<size_t>(documents));
  for (size_t i = 0; i < count; ++i) {
    const BatchIndex& index = *located[i].index;
    const auto row = static_cast<size_t>(located[i].place.row);
    std::copy(index.seq_lengths.data() + index.offsets[row],
              index.seq_lengths.data() + index.offsets[row + 1], seq_lengths.data() + seq_offsets[i]);
  }
  const int64_t itemsize = table_.shape.itemsize;
  const bool with_labels = with_tokens && table_.shape.more > 0;
  PooledBlock block(pool_, with_tokens ? static_cast<size_t>(tokens * itemsize) : 0);
  PooledBlock labels(pool_, with_labels ? static_cast<size_t>(tokens) * sizeof(int32_t) : 0);
  if (with_tokens) read_column(located, offsets, &BatchIndex::tokens_at, itemsize, block.data());
  if (with_labels) read_column(located, offsets, &BatchIndex::labels_at, sizeof(int32_t), labels.data());
  return {std::move(block), std::move(labels), std::move(offsets), std::move(seq_lengths),
          std::move(seq_offsets)};
}

std::vector<ShardRows::Located> ShardRows::locate(const int64_t* rows, size_t count) {
  std::vector<Located> located;
  located.reserve(count);
  {
    const std::lock_guard lock(mutex_);  // once for all cached indexes, which are most
    for (size_t i = 0; i < count; ++i) {
      const Place here = place(rows[i], i == 0 ? 0 : located.back().place.shard);
      located.push_back({here, files_[here.shard], recall(here.batch)});
    }
  }
  const Located* before = nullptr;
  for (Located& one : located) {
    if (!one.file) one.file = file(one.place.shard);
    // The row before may have read it, and a small cache may have dropped it since.
    if (!one.index && before != nullptr && before->place.batch == one.place.batch) one.index = before->index;
    if (!one.index) one.index = index(one.place, *one.file);
    before = &one;
  }
  return located;
}

// Rows that follow each other in a record batch are read at once.
void ShardRows::read_column(const std::vector<Located>& located, const Buffer<int64_t>& offsets,
                            int64_t BatchIndex::* at, int64_t itemsize, uint8_t* out) const {
  // The first of each row from memory while the rows before it are copied: a tenth less time.
  for (const auto& [place, file, index] : located)
    file->expect((*index).*at + index->token_offset(table_.shape, place.row) * itemsize);
  for (size_t i = 0; i < located.size();) {
    const size_t first = i;
    do ++i;
    while (i < located.size() && located[i].place.batch == located[first].place.batch &&
           located[i].place.row == located[i - 1].place.row + 1);
    const auto& [place, file, index] = located[first];
    file->read((*index).*at + index->token_offset(table_.shape, place.row) * itemsize,
               out + offsets[first] * itemsize,
               static_cast<size_t>((offsets[i] - offsets[first]) * itemsize));
  }
}

ShardRows::Place ShardRows::place(int64_t row, size_t near) const {
  const std::vector<int64_t>& starts = table_.row_starts;
  if (row < 0 || row >= starts.back()) throw std::invalid_argument("there is no such row");
  size_t shard = near;
  if (row < starts[near] || row >= starts[near + 1])
    shard = static_cast<size_t>(std::upper_bound(starts.begin(), starts.end(), row) - starts.begin()) - 1;
  const int64_t inside = row - starts[shard];
  return {shard, static_cast<size_t>(batch_starts_[shard] + inside / table_.rows_per_batch),
          inside % table_.rows_per_batch};
}

std::shared_ptr<const ShardFile> ShardRows::file(size_t shard) {
  const std::lock_guard lock(mutex_);
  if (files_[shard]) return files_[shard];
  if (open_.size() == kMostOpen) {
    files_[open_.front()].reset();  // closed when the last thread that reads it lets go
    open_.pop_front();
  }
  int descriptor = ::open(table_.paths[shard].c_str(), kOpen);
  if (descriptor < 0 && errno == EMFILE) {  // the process has no free descriptor: use fewer
    for (; !open_.empty(); open_.pop_front()) files_[open_.front()].reset();
    descriptor = ::open(table_.paths[shard].c_str(), kOpen);
  }
  if (descriptor < 0 && errno == ENOENT)
    throw pack::UnreadableFile(shard, "is missing, but the manifest names it");
  if (descriptor < 0)
    throw pack::UnreadableFile(shard, std::string("cannot be read: ") + std::strerror(errno));
  check_size(shard, descriptor);
  auto opened = std::make_shared<const ShardFile>(shard, descriptor, table_.sizes[shard], mapped_);
  if (!opened->mapped()) open_.push_back(shard);
  files_[shard] = opened;
  return opened;
}

// Closes the descriptor if it throws.
void ShardRows::check_size(size_t shard, int descriptor) const {
  struct stat status;
  const bool known = ::fstat(descriptor, &status) == 0;
  const int64_t expected = table_.sizes[shard];
  if (known && S_ISREG(status.st_mode) && status.st_size == expected) return;
  std::string reason;
  if (!known)
    reason = std::string("cannot be read: ") + std::strerror(errno);
  else if (!S_ISREG(status.st_mode))
    reason = "cannot be read: it is not a regular file";
  else
    reason = std::string("is ") + (status.st_size < expected ? "truncated" : "too long") + ": it has " +
             std::to_string(status.st_size) + " bytes, and the manifest says " + std::to_string(expected);
  ::close(descriptor);
  throw pack::UnreadableFile(shard, reason);
}

std::shared_ptr<const BatchIndex> ShardRows::index(const Place& place, const ShardFile& file) {
  {
    const std::lock_guard lock(mutex_);
    if (auto known = recall(place.batch)) return known;  // a row before this one has read it
  }
  // Read without the lock: two threads may read the same one, and either is right.
  auto found = std::make_shared<const BatchIndex>(read_index(place, file));
  remember(place.batch, found);
  return found;
}

// The cached index of a batch, or null; with the lock held.
std::shared_ptr<const BatchIndex> ShardRows::recall(size_t batch) {
  const auto known = by_batch_.find(batch);
  if (known == by_batch_.end()) return nullptr;
  indexes_.splice(indexes_.begin(), indexes_, known->second);
  return known->second->second;
}

BatchIndex ShardRows::read_index(const Place& place, const ShardFile& file) const {
  const int64_t batch = static_cast<int64_t>(place.batch) - batch_starts_[place.shard];
  const bool last = static_cast<int64_t>(place.batch) + 1 == batch_starts_[place.shard + 1];
  const int64_t start = table_.batch_offsets[place.batch];
  const int64_t end = last ? table_.sizes[place.shard] - kEndOfStream : table_.batch_offsets[place.batch + 1];
  const int64_t shard_rows = table_.row_starts[place.shard + 1] - table_.row_starts[place.shard];
  const int64_t rows = std::min(table_.rows_per_batch, shard_rows - batch * table_.rows_per_batch);
  try {
    return read_batch_index(file, start, end, rows, table_.shape);
  } catch (const DamagedHeader& fault) {
    file.fail("is damaged at record batch " + std::to_string(batch) + " (byte " + std::to_string(start) +
              "): " + fault.what());
  }
}

void ShardRows::remember(size_t batch, std::shared_ptr<const BatchIndex> index) {
  const std::lock_guard lock(mutex_);
  if (by_batch_.contains(batch)) return;
  cached_ += index->bytes();
  indexes_.emplace_front(batch, std::move(index));
  by_batch_.emplace(batch, indexes_.begin());
  while (cached_ > cache_bytes_) {
    cached_ -= indexes_.back().second->bytes();
    by_batch_.erase(indexes_.back().first);
    indexes_.pop_back();
  }
}

size_t ShardRows::cached_bytes() {
  const std::lock_guard lock(mutex_);
  return cached_;
}

}  // namespace krill::loading
