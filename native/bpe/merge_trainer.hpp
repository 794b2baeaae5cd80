// Learning merges: from words and their counts to a list of pairs, exactly as Hugging Face's trainer would.
//
// Words lie in one flat array of symbols, sorted by count, so that a count is stored once for all words that
// share it; a merge shortens a word in place. Pairs are counted in a table; the best are in a lazy heap;
// where a pair occurs is kept as *postings*, the starts of the words that hold it, or of blocks of long
// words.
//
// State that does not fit the cap is dropped and found again by a pass over the words: only the best pairs
// are tracked (all others are known to be worse than a threshold), only the best of those have postings, and
// if even the words don't fit they stay in a file. Each of these is slower and none changes a merge.
//
// A token is formed by one pair only: between two token borders the same bytes are always cut the same way,
// as a merge joins all occurrences of its pair. So all occurrences of a pair appear in one merge and
// disappear in one, a count only falls once the pair is there, and what was dropped can be found again
// without its history.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace krill::bpe {

struct MergeOptions {
  std::array<int32_t, 256> byte_ids;  // the id of each byte, -1 = dropped from words
  // The first tokens by id, as bytes; none where no merge can form them (a special token with a space in it).
  std::vector<std::optional<std::string>> tokens;
  size_t vocab_size = 0;
  uint64_t min_frequency = 0;
  uint64_t max_token_length = 0;  // 0 = no limit
  bool greatest = false;          // the other tie-break, with plain counts
  size_t cap_bytes = 0;
  std::string scratch_path;  // where words go that don't fit
};

struct Merge {
  uint32_t left;
  uint32_t right;
  uint32_t token;
};

// How the work was done, for the summary and the tests.
struct MergeStatistics {
  uint64_t symbols = 0;   // held at the beginning
  uint64_t rebuilds = 0;  // passes that found the best pairs again
  uint64_t postings = 0;  // passes that found the places of pairs again
  uint64_t scans = 0;     // merges that had to look through all words
  bool on_disk = false;
  size_t word_bytes = 0;    // memory of the words
  size_t posted_pairs = 0;  // that had postings at the beginning
  size_t ample_bytes = 0;   // a cap with which merging is as fast as it gets
  size_t planned_bytes = 0;
};

class MergeTrainer {
 public:
  virtual ~MergeTrainer() = default;
  // Up to `most` further merges, or as many as are done in about `seconds`, at least one; returns how many.
  // None means that training is finished.
  virtual size_t run(size_t most, std::chrono::duration<double> seconds) = 0;
  virtual const std::vector<Merge>& merges() const = 0;
  virtual std::vector<std::string> tokens() const = 0;
  virtual MergeStatistics statistics() const = 0;
};

// Reads the words from a file of counts that WordCounter has written.
std::unique_ptr<MergeTrainer> make_merge_trainer(const std::string& inventory, MergeOptions options);

}  // namespace krill::bpe
