#include "bpe/segments.hpp"

#include <memory>
#include <queue>

namespace krill::bpe {

namespace {

constexpr size_t kWays = 64;

struct Source {
  RecordReader reader;
  Record record;
  uint32_t tag;

  bool advance() {
    if (!reader.next(record)) return false;
    const auto* word = reinterpret_cast<const uint8_t*>(record.word.data());
    tag = WordShard::tag(hash_word(word, record.word.size()));
    return true;
  }
};

struct Later {
  bool operator()(const Source* a, const Source* b) const {
    return a->tag != b->tag ? a->tag > b->tag : a->record.word > b->record.word;
  }
};

// A segment, and the size of its longest word, or of any if all are short: about the memory of its reader.
struct SizedSegment {
  Segment segment;
  uint64_t longest;
};

template <class Sink>
void merge_ways(const File& file, const SizedSegment* sized, size_t ways, size_t buffer, Sink&& sink) {
  std::vector<std::unique_ptr<Source>> sources;
  std::priority_queue<Source*, std::vector<Source*>, Later> queue;
  for (size_t way = 0; way < ways; ++way) {
    const Segment& segment = sized[way].segment;
    sources.push_back(
        std::make_unique<Source>(Source{RecordReader(file, segment.begin, segment.end, buffer), {}, 0}));
    if (sources.back()->advance()) queue.push(sources.back().get());
  }
  std::string word;
  uint64_t count = 0;
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

// How many of the segments from `first` on can be open at once: all, or at least two.
size_t ways_from(const std::vector<SizedSegment>& sized, size_t first, size_t buffer, size_t room) {
  uint64_t held = 0;
  size_t ways = 0;
  for (; ways < kWays && first + ways < sized.size(); ++ways) {
    held += std::max<uint64_t>(buffer, sized[first + ways].longest);
    if (held > room && ways >= 2) break;
  }
  return ways;
}

}  // namespace

uint64_t merge_segments(File& file, const std::vector<Segment>& segments, uint64_t end, size_t cap_bytes,
                        const std::function<void(const Record&)>& sink) {
  const size_t buffer = std::clamp<size_t>(cap_bytes / (4 * kWays), 64, 64 * 1024);
  const size_t room = std::max(cap_bytes / 2, kWays * buffer);
  std::vector<SizedSegment> sized;
  for (const Segment& segment : segments)
    sized.push_back({segment, RecordReader::first_size(file, segment.begin, segment.end)});
  while (ways_from(sized, 0, buffer, room) < sized.size()) {
    std::vector<SizedSegment> longer;
    for (size_t first = 0, ways; first < sized.size(); first += ways) {
      ways = ways_from(sized, first, buffer, room);
      RecordWriter writer(file, end, std::min<size_t>(256 * 1024, cap_bytes / 16));
      uint64_t longest = 0;
      merge_ways(file, sized.data() + first, ways, buffer, [&](const Record& record) {
        longest = std::max<uint64_t>(longest, record.word.size());
        writer.write(record);
      });
      writer.flush();
      longer.push_back({{sized[first].segment.shard, end, writer.position()}, longest});
      end = writer.position();
    }
    sized = std::move(longer);
  }
  merge_ways(file, sized.data(), sized.size(), buffer, sink);
  return end;
}

}  // namespace krill::bpe
