#include "bpe/segments.hpp"

#include <memory>
#include <queue>

namespace krill {

namespace {

constexpr std::size_t kWays = 64;

struct Source {
  RecordReader reader;
  Record record;
  std::uint32_t tag;

  bool advance() {
    if (!reader.next(record)) return false;
    const auto* word = reinterpret_cast<const std::uint8_t*>(record.word.data());
    tag = WordShard::tag(hash_word(word, record.word.size()));
    return true;
  }
};

struct Later {
  bool operator()(const Source* a, const Source* b) const {
    return a->tag != b->tag ? a->tag > b->tag : a->record.word > b->record.word;
  }
};

template <class Sink>
void merge_ways(const File& file, const Segment* segments, std::size_t ways, std::size_t buffer, Sink&& sink) {
  std::vector<std::unique_ptr<Source>> sources;
  std::priority_queue<Source*, std::vector<Source*>, Later> queue;
  for (std::size_t way = 0; way < ways; ++way) {
    const Segment& segment = segments[way];
    sources.push_back(
        std::make_unique<Source>(Source{RecordReader(file, segment.begin, segment.end, buffer), {}, 0}));
    if (sources.back()->advance()) queue.push(sources.back().get());
  }
  std::string word;
  std::uint64_t count = 0;
  while (!queue.empty()) {
    Source* source = queue.top();
    queue.pop();
    if (count != 0 && source->record.word == word) {
      count += source->record.count;
    } else {
      if (count != 0) sink(Record{count, word});
      word = source->record.word;
      count = source->record.count;
    }
    if (source->advance()) queue.push(source);
  }
  if (count != 0) sink(Record{count, word});
}

}  // namespace

std::uint64_t merge_segments(File& file, std::vector<Segment> segments, std::uint64_t end, std::size_t cap_bytes,
                             const std::function<void(const Record&)>& sink) {
  const std::size_t buffer = std::clamp<std::size_t>(cap_bytes / (4 * kWays), 64, 64 * 1024);
  while (segments.size() > kWays) {
    std::vector<Segment> longer;
    for (std::size_t first = 0; first < segments.size(); first += kWays) {
      const std::size_t ways = std::min(kWays, segments.size() - first);
      RecordWriter writer(file, end, std::min<std::size_t>(256 * 1024, cap_bytes / 16));
      merge_ways(file, segments.data() + first, ways, buffer, [&](const Record& record) { writer.write(record); });
      writer.flush();
      longer.push_back({segments[first].shard, end, writer.position()});
      end = writer.position();
    }
    segments = std::move(longer);
  }
  merge_ways(file, segments.data(), segments.size(), buffer, sink);
  return end;
}

}  // namespace krill
