// Counting words: how often each pretoken occurs, exactly, in a fixed number of bytes.
//
// Words go through a small direct-mapped front (one for each thread, it fits the L2 cache and takes nine
// words in ten), from there in batches to one of 64 shards, chosen by hash: no thread has a table of its own.
// A shard that has used up its part of the cap is sorted and appended to a spill file as a *segment*. The
// result is merged from the segments and the shards: the same counts at any cap.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "bpe/records.hpp"
#include "bpe/word_hash.hpp"
#include "bpe/word_shard.hpp"
#include "text/column.hpp"
#include "text/scanner.hpp"
#include "text/token_finder.hpp"

namespace krill::bpe {

// Records of one shard in the spill file, sorted by hash and word.
struct Segment {
  uint64_t shard;
  uint64_t begin;
  uint64_t end;
};

struct InventoryTotals {
  uint64_t words = 0;                       // distinct ones
  uint64_t occurrences = 0;                 // of all words
  uint64_t bytes = 0;                       // of the distinct words
  std::array<uint64_t, 256> byte_counts{};  // of all occurrences

  void add(const Record& record);
};

class WordCounter {
 public:
  static constexpr size_t kShards = 64;

  struct Options {
    std::optional<text::Pattern> pattern;  // none: only `add_words`
    std::vector<std::string> boundaries;   // cut out of the text and never counted
    bool lines = false;                    // no word crosses the end of a line
    size_t cap_bytes = 0;
    unsigned threads = 1;
    std::string spill_path;
  };

  // `segments` are those of an earlier process, all in the first `spill_size` bytes of the spill file.
  WordCounter(Options options, std::vector<Segment> segments, uint64_t spill_size);
  ~WordCounter();

  // From any thread: the words of each document.
  void add(const text::TextColumn& documents);
  // From any thread: words that were cut already; they end at `ends` and cover the bytes before.
  void add_words(const uint8_t* data, const uint64_t* ends, size_t words);

  // The rest only while no thread adds.
  const std::vector<Segment>& checkpoint();
  InventoryTotals write_counts(const std::string& path);
  size_t held_bytes() const { return held_.load(std::memory_order_relaxed); }
  uint64_t spilled_bytes() const { return spill_end_; }

 private:
  struct Front;
  class Lease;

  std::unique_ptr<Front> lease();
  void give_back(std::unique_ptr<Front> front);
  void count_lines(Front& front, const uint8_t* text, size_t size);
  void count_document(Front& front, const uint8_t* text, size_t size);
  void count_words(Front& front, const uint8_t* text, size_t from, size_t words, const uint8_t* limit);
  void count_long(const uint8_t* word, size_t size);
  void count_short(Front& front, const ShortWord& word, size_t size, uint64_t hash);
  void send(Front& front, size_t shard);
  void put(size_t shard, const uint8_t* word, size_t size, uint64_t hash, uint64_t count);
  void flush_fronts();
  void spill(size_t shard);

  Options options_;
  text::TokenFinder finder_;
  std::atomic<size_t> held_{0};
  size_t front_entries_;
  std::vector<std::unique_ptr<WordShard>> shards_;
  std::unique_ptr<std::mutex[]> locks_;
  std::mutex fronts_lock_;
  std::vector<std::unique_ptr<Front>> fronts_;
  std::mutex spill_lock_;
  std::unique_ptr<File> spill_file_;
  uint64_t spill_end_;
  std::vector<Segment> segments_;
};

}  // namespace krill::bpe
