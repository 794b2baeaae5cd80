#include "bpe/counter.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "bpe/segments.hpp"

namespace krill::bpe {

namespace {

constexpr size_t kBatch = 1024;          // words scanned at a time
constexpr size_t kWordsAhead = 16;       // words whose slots in the front are fetched together
constexpr size_t kOutbox = 32;           // words sent to a shard at a time
constexpr size_t kMaxFront = 32 * 1024;  // entries: 1 MB, about what a core's own cache takes
constexpr size_t kWriteBuffer = 256 * 1024;

size_t shard_of(uint64_t hash) { return hash >> 58; }
static_assert(WordCounter::kShards == size_t{1} << (64 - 58));

// The end of the line that has `place` in it.
size_t line_end(const uint8_t* text, size_t size, size_t place) {
  const void* newline = std::memchr(text + place, '\n', size - place);
  return newline == nullptr ? size : static_cast<size_t>(static_cast<const uint8_t*>(newline) - text) + 1;
}

}  // namespace

void InventoryTotals::add(const Record& record) {
  ++words;
  occurrences += record.count;
  bytes += record.word.size();
  for (const char byte : record.word) byte_counts[static_cast<uint8_t>(byte)] += record.count;
}

// The state of one thread.
struct WordCounter::Front {
  struct Entry {
    ShortWord word;
    uint32_t size;
    uint32_t count;  // 0 = empty
  };
  struct Sent {
    ShortWord word;
    uint64_t hash;
    uint32_t size;
    uint32_t count;
  };

  explicit Front(size_t entries) : cache(entries), outboxes(kShards * kOutbox), waiting{} {}
  static size_t bytes(size_t entries) {
    return entries * sizeof(Entry) + kShards * kOutbox * sizeof(Sent) + sizeof(Front);
  }

  std::vector<Entry> cache;
  std::vector<Sent> outboxes;
  std::array<uint8_t, kShards> waiting;
  std::array<uint32_t, kBatch> ends;
};

WordCounter::WordCounter(Options options, std::vector<Segment> segments, uint64_t spill_size)
    : options_(std::move(options)),
      finder_(options_.boundaries),
      locks_(std::make_unique<std::mutex[]>(kShards)),
      spill_file_(std::make_unique<File>(options_.spill_path, true)),
      spill_end_(spill_size),
      segments_(std::move(segments)) {
  for (const Segment& segment : segments_)
    if (segment.shard >= kShards || segment.begin > segment.end || segment.end > spill_size)
      throw DamagedFile("a segment lies outside of its spill file");
  if (spill_file_->size() < spill_size) throw DamagedFile("the spill file is shorter than it was");
  spill_file_->truncate(spill_size);
  // A sixteenth of the cap for the fronts together, a power of two of entries each.
  const size_t share = options_.cap_bytes / 16 / std::max(1u, options_.threads);
  front_entries_ = 16;
  while (front_entries_ < kMaxFront && Front::bytes(front_entries_ * 2) <= share) front_entries_ *= 2;
  const size_t fronts = Front::bytes(front_entries_) * std::max(1u, options_.threads);
  const size_t rest = options_.cap_bytes > fronts ? options_.cap_bytes - fronts : 0;
  // Shards take turns growing, and one that grows has its table twice for a moment.
  const size_t quota = rest / (kShards + options_.threads);
  for (size_t shard = 0; shard < kShards; ++shard)
    shards_.push_back(std::make_unique<WordShard>(quota, held_));
}

WordCounter::~WordCounter() = default;

// Fronts are lent to threads that add, and keep their words until they are flushed.
class WordCounter::Lease {
 public:
  explicit Lease(WordCounter& counter) : counter_(counter), front_(counter.lease()) {}
  ~Lease() { counter_.give_back(std::move(front_)); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  Front& operator*() { return *front_; }

 private:
  WordCounter& counter_;
  std::unique_ptr<Front> front_;
};

std::unique_ptr<WordCounter::Front> WordCounter::lease() {
  {
    const std::lock_guard lock(fronts_lock_);
    if (!fronts_.empty()) {
      auto front = std::move(fronts_.back());
      fronts_.pop_back();
      return front;
    }
  }
  held_ += Front::bytes(front_entries_);
  return std::make_unique<Front>(front_entries_);
}

void WordCounter::give_back(std::unique_ptr<Front> front) {
  const std::lock_guard lock(fronts_lock_);
  fronts_.push_back(std::move(front));
}

void WordCounter::add(const text::TextColumn& documents) {
  if (!options_.pattern) throw std::logic_error("this counter takes words only");
  Lease front(*this);
  for (size_t row = 0; row < documents.rows; ++row)
    count_document(*front, documents.begin(row), documents.size(row));
}

void WordCounter::add_words(const uint8_t* data, const uint64_t* ends, size_t words) {
  Lease lease(*this);
  Front& front = *lease;
  // The front counts ends in 32 bits from where a batch begins.
  for (size_t first = 0; first < words; first += kBatch) {
    const size_t last = std::min(words, first + kBatch);
    const uint64_t base = first == 0 ? 0 : ends[first - 1];
    if (ends[last - 1] - base > 0xffffffffu) throw std::length_error("words of 4 GiB or more");
    for (size_t at = first; at < last; ++at) front.ends[at - first] = static_cast<uint32_t>(ends[at] - base);
    count_words(front, data + base, 0, last - first, data + ends[words - 1]);
  }
}

void WordCounter::count_document(Front& front, const uint8_t* text, size_t size) {
  size_t from = 0;
  text::TokenFinder::Match match;
  while (!finder_.empty() && finder_.next(text, size, from, match)) {
    count_lines(front, text + from, match.start - from);
    from = match.end;
  }
  count_lines(front, text + from, size - from);
}

// Words are counted in batches that go on from one line to the next: lines are short.
void WordCounter::count_lines(Front& front, const uint8_t* text, size_t size) {
  size_t counted = 0;
  size_t found = 0;
  for (size_t line = 0; line < size;) {
    const size_t end = options_.lines ? line_end(text, size, line) : size;
    while (line < end) {
      found += scan_words(*options_.pattern, text, end, line, front.ends.data() + found, kBatch - found);
      line = front.ends[found - 1];
      if (kBatch - found >= text::kScanRoom) continue;
      count_words(front, text, counted, found, text + size);
      counted = line;
      found = 0;
    }
  }
  count_words(front, text, counted, found, text + size);
}

// The words that end at `front.ends`, the first of them beginning at `from`.
void WordCounter::count_words(Front& front, const uint8_t* text, size_t from, size_t words,
                              const uint8_t* limit) {
  struct {
    ShortWord word;
    uint64_t hash;
    size_t size;
  } ahead[kWordsAhead];
  for (size_t first = 0; first < words; first += kWordsAhead) {
    const size_t last = std::min(words, first + kWordsAhead);
    size_t short_ones = 0;
    for (size_t at = first; at < last; ++at) {
      const size_t size = front.ends[at] - from;
      if (size > ShortWord::kLongest) {
        count_long(text + from, size);
      } else if (size > 0) {
        auto& next = ahead[short_ones++];
        next.word = ShortWord::load(text + from, size, limit);
        next.hash = next.word.hash(size);
        next.size = size;
        __builtin_prefetch(&front.cache[next.hash & (front_entries_ - 1)]);
      }
      from = front.ends[at];
    }
    for (size_t at = 0; at < short_ones; ++at)
      count_short(front, ahead[at].word, ahead[at].size, ahead[at].hash);
  }
}

void WordCounter::count_long(const uint8_t* word, size_t size) {
  const uint64_t hash = hash_word(word, size);
  const size_t shard = shard_of(hash);
  const std::lock_guard lock(locks_[shard]);
  put(shard, word, size, hash, 1);
}

inline void WordCounter::count_short(Front& front, const ShortWord& word, size_t size, uint64_t hash) {
  Front::Entry& entry = front.cache[hash & (front_entries_ - 1)];
  if (entry.word == word && entry.size == size && entry.count != 0xffffffffu) {
    ++entry.count;
    return;
  }
  if (entry.count != 0) {
    const uint64_t old = entry.word.hash(entry.size);
    const size_t shard = shard_of(old);
    front.outboxes[shard * kOutbox + front.waiting[shard]++] = {entry.word, old, entry.size, entry.count};
    if (front.waiting[shard] == kOutbox) send(front, shard);
  }
  entry = {word, static_cast<uint32_t>(size), 1};
}

void WordCounter::send(Front& front, size_t shard) {
  const std::lock_guard lock(locks_[shard]);
  const auto* waiting = front.outboxes.data() + shard * kOutbox;
  const size_t count = front.waiting[shard];
  for (size_t at = 0; at < count; ++at) shards_[shard]->prefetch(waiting[at].hash);
  for (size_t at = 0; at < count; ++at) shards_[shard]->prefetch_word(waiting[at].hash);
  for (size_t at = 0; at < count; ++at) {
    const auto& sent = waiting[at];
    put(shard, reinterpret_cast<const uint8_t*>(sent.word.lanes.data()), sent.size, sent.hash, sent.count);
  }
  front.waiting[shard] = 0;
}

// With the shard's lock held.
void WordCounter::put(size_t shard, const uint8_t* word, size_t size, uint64_t hash, uint64_t count) {
  WordShard& table = *shards_[shard];
  if (!table.holds(size)) {
    // Too long for any table of this cap: a segment of its own.
    const std::lock_guard lock(spill_lock_);
    RecordWriter writer(*spill_file_, spill_end_, 64);
    writer.write({count, {reinterpret_cast<const char*>(word), size}});
    writer.flush();
    segments_.push_back({shard, spill_end_, writer.position()});
    spill_end_ = writer.position();
    return;
  }
  if (table.add(word, size, hash, count)) return;
  spill(shard);
  if (!table.add(word, size, hash, count)) throw std::logic_error("an empty shard has no room for a word");
}

void WordCounter::spill(size_t shard) {
  if (shards_[shard]->empty()) return;
  const std::lock_guard lock(spill_lock_);
  RecordWriter writer(*spill_file_, spill_end_, std::min(kWriteBuffer, options_.cap_bytes / 16));
  shards_[shard]->drain(true, [&](const Record& record) { writer.write(record); });
  writer.flush();
  segments_.push_back({shard, spill_end_, writer.position()});
  spill_end_ = writer.position();
}

void WordCounter::flush_fronts() {
  for (auto& front : fronts_) {
    for (auto& entry : front->cache) {
      if (entry.count == 0) continue;
      const uint64_t hash = entry.word.hash(entry.size);
      const size_t shard = shard_of(hash);
      const std::lock_guard lock(locks_[shard]);
      put(shard, reinterpret_cast<const uint8_t*>(entry.word.lanes.data()), entry.size, hash, entry.count);
      entry.count = 0;
    }
    for (size_t shard = 0; shard < kShards; ++shard) send(*front, shard);
  }
}

const std::vector<Segment>& WordCounter::checkpoint() {
  flush_fronts();
  for (size_t shard = 0; shard < kShards; ++shard) spill(shard);
  spill_file_->sync();
  return segments_;
}

InventoryTotals WordCounter::write_counts(const std::string& path) {
  flush_fronts();
  held_ -= fronts_.size() * Front::bytes(front_entries_);
  fronts_.clear();
  File file(path, true);
  file.truncate(0);
  RecordWriter writer(file, 0, std::min(kWriteBuffer, options_.cap_bytes / 16));
  InventoryTotals totals;
  const auto emit = [&](const Record& record) {
    totals.add(record);
    writer.write(record);
  };
  // Tables first, so that merging has the memory to itself.
  std::array<bool, kShards> spilled{};
  for (const Segment& segment : segments_) spilled[segment.shard] = true;
  for (size_t shard = 0; shard < kShards; ++shard) {
    if (spilled[shard]) {
      spill(shard);
    } else {
      shards_[shard]->drain(false, emit);
    }
  }
  for (size_t shard = 0; shard < kShards; ++shard) {
    std::vector<Segment> segments;
    std::copy_if(segments_.begin(), segments_.end(), std::back_inserter(segments),
                 [shard](const Segment& segment) { return segment.shard == shard; });
    spill_end_ = merge_segments(*spill_file_, segments, spill_end_, options_.cap_bytes, emit);
  }
  writer.flush();
  file.sync();
  return totals;
}

}  // namespace krill::bpe
