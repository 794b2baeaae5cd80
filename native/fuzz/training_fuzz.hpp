// Drives the counter and the merge loop with documents, words and options taken from the input, under caps
// that make them spill, scan and begin anew, and aborts where they differ from the obvious way. Files that
// were never written by them must be refused, or read as something, and do no harm.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <stdlib.h>

#include "bpe/counter.hpp"
#include "bpe/merge_trainer.hpp"
#include "bpe/records.hpp"
#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/scanner_fuzz.hpp"
#include "text/scanner.hpp"

namespace krill::fuzz {

using Words = std::map<std::string, uint64_t>;

// A folder that goes with the process; in memory where there is such a place, as files are synced here.
class ScratchFolder {
 public:
  ScratchFolder() {
    const std::filesystem::path shared = "/dev/shm";
    std::error_code absent;
    const bool in_memory = std::filesystem::is_directory(shared, absent);
    std::string name =
        ((in_memory ? shared : std::filesystem::temp_directory_path()) / "krill_fuzz.XXXXXX").string();
    expect(mkdtemp(name.data()) != nullptr, "training: no folder for files");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  static std::string file(const char* name) {
    static const ScratchFolder folder;
    return (folder.path_ / name).string();
  }

 private:
  std::filesystem::path path_;
};

inline std::string write_file(const char* name, const std::vector<uint8_t>& content) {
  const std::string path = ScratchFolder::file(name);
  bpe::File file(path, true);
  file.truncate(0);
  file.write(0, content.data(), content.size());
  return path;
}

inline std::string write_words(const char* name, const Words& words) {
  const std::string path = ScratchFolder::file(name);
  bpe::File file(path, true);
  file.truncate(0);
  bpe::RecordWriter writer(file, 0, 0);
  for (const auto& [word, count] : words) writer.write({count, word});
  writer.flush();
  return path;
}

inline Words read_words(const std::string& path) {
  const bpe::File file(path, false);
  bpe::RecordReader reader(file, 0, file.size(), 0);
  bpe::Record record;
  Words words;
  while (reader.next(record))
    expect(words.emplace(std::string(record.word), record.count).second, "counter: a word comes twice");
  return words;
}

// ---- counting

inline void count_piece_plainly(const bpe::WordCounter::Options& options, const std::string& piece,
                                Words& words) {
  const auto* text = reinterpret_cast<const uint8_t*>(piece.data());
  for (size_t from = 0; from < piece.size();) {
    uint32_t end = 0;
    scan_words(*options.pattern, text, piece.size(), from, &end, 1);
    ++words[piece.substr(from, end - from)];
    from = end;
  }
}

inline void count_lines_plainly(const bpe::WordCounter::Options& options, const std::string& text,
                                Words& words) {
  for (size_t from = 0; from < text.size();) {
    const size_t newline = options.lines ? text.find('\n', from) : std::string::npos;
    const size_t end = newline == std::string::npos ? text.size() : newline + 1;
    count_piece_plainly(options, text.substr(from, end - from), words);
    from = end;
  }
}

inline void count_plainly(const bpe::WordCounter::Options& options, const std::string& document,
                          Words& words) {
  size_t from = 0;
  text::TokenFinder::Match match{};
  while (find_plainly(options.boundaries, document, from, match)) {
    count_lines_plainly(options, document.substr(from, match.start - from), words);
    from = match.end;
  }
  count_lines_plainly(options, document.substr(from), words);
}

inline bpe::WordCounter::Options counter_options(Settings& settings) {
  bpe::WordCounter::Options options;
  options.pattern = text::kNamedPatterns[settings.next() % 5].pattern;
  options.lines = settings.flag();
  options.cap_bytes = size_t{settings.next()} * 64;
  options.boundaries.resize(settings.next() % 3);
  for (std::string& token : options.boundaries) {
    token.resize(1 + settings.next() % 3);
    for (char& byte : token) byte = static_cast<char>(settings.next());
  }
  options.spill_path = ScratchFolder::file("spill");
  return options;
}

inline void check_totals(const bpe::InventoryTotals& totals, const Words& words) {
  bpe::InventoryTotals expected;
  for (const auto& [word, count] : words) expected.add({count, word});
  expect(totals.words == expected.words && totals.occurrences == expected.occurrences &&
             totals.bytes == expected.bytes && totals.byte_counts == expected.byte_counts,
         "counter: totals");
}

// Some documents are followed by a checkpoint, some of those by what is lost with the counter, and a new one.
inline void fuzz_counter(Settings settings) {
  const bpe::WordCounter::Options options = counter_options(settings);
  const size_t between = 1 + settings.next() % 16;
  const size_t life = between * (1 + settings.next() % 64);
  const Column column = cut_column(settings);
  write_file("spill", {});
  auto counter = std::make_unique<bpe::WordCounter>(options, std::vector<bpe::Segment>{}, 0);
  Words expected;
  for (size_t row = 0; row < column.rows(); ++row) {
    const text::TextColumn document{column.offsets.data() + row, 1, column.data.data(), column.data.size()};
    counter->add(document);
    count_plainly(options, column.row(row), expected);
    if (row % between != 0) continue;
    const std::vector<bpe::Segment> segments = counter->checkpoint();
    const uint64_t size = counter->spilled_bytes();
    if (row % life != 0) continue;
    counter->add(document);
    counter = std::make_unique<bpe::WordCounter>(options, segments, size);
  }
  const std::string inventory = ScratchFolder::file("inventory");
  const bpe::InventoryTotals totals = counter->write_counts(inventory);
  expect(read_words(inventory) == expected, "counter: counts");
  check_totals(totals, expected);
}

inline void fuzz_damaged_spill(Settings settings) {
  bpe::WordCounter::Options options = counter_options(settings);
  std::vector<bpe::Segment> segments(settings.next() % 6);
  for (bpe::Segment& segment : segments) {
    segment.shard = settings.next() % (bpe::WordCounter::kShards + 1);
    segment.begin = settings.next();
    segment.end = segment.begin + settings.next();
  }
  const std::vector<uint8_t> content(settings.rest(), settings.rest() + settings.rest_size());
  write_file("spill", content);
  try {
    bpe::WordCounter counter(options, segments, content.size());
    counter.write_counts(ScratchFolder::file("inventory"));
  } catch (const bpe::DamagedFile&) {
  }
}

// ---- merging

// The merge loop as it is told: count all pairs anew before each merge.
class PlainTrainer {
 public:
  PlainTrainer(const Words& words, const bpe::MergeOptions& options) : options_(options) {
    for (const auto& token : options.tokens) tokens_.push_back(token.value_or(""));
    for (const auto& [word, count] : words) {
      std::vector<uint32_t> symbols;
      for (const char byte : word) {
        const int32_t id = options.byte_ids[static_cast<uint8_t>(byte)];
        if (id >= 0) symbols.push_back(static_cast<uint32_t>(id));
      }
      words_.emplace_back(std::move(symbols), count);
    }
    while (tokens_.size() < options.vocab_size && merge_best()) {
    }
  }

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<std::array<uint32_t, 3>>& merges() const { return merges_; }

 private:
  using Ids = std::pair<uint32_t, uint32_t>;

  bool may_join(const Ids& pair) const {
    const size_t size = tokens_[pair.first].size() + tokens_[pair.second].size();
    const bool two_bytes = tokens_[pair.first].size() == 1 && tokens_[pair.second].size() == 1;
    return options_.max_token_length == 0 || two_bytes || size < options_.max_token_length;
  }

  bool goes_first(const Ids& a, const Ids& b) const {
    if (!options_.greatest) return a < b;
    return std::pair(tokens_[a.first], tokens_[a.second]) > std::pair(tokens_[b.first], tokens_[b.second]);
  }

  bool merge_best() {
    std::map<Ids, uint64_t> counts;
    for (const auto& [word, count] : words_)
      for (size_t at = 0; at + 1 < word.size(); ++at) counts[{word[at], word[at + 1]}] += count;
    std::optional<std::pair<Ids, uint64_t>> best;
    for (const auto& [pair, count] : counts) {
      if (!may_join(pair)) continue;
      if (!best || count > best->second || (count == best->second && goes_first(pair, best->first)))
        best.emplace(pair, count);
    }
    if (!best || best->second < options_.min_frequency) return false;
    join(best->first);
    return true;
  }

  void join(const Ids& pair) {
    const std::string text = tokens_[pair.first] + tokens_[pair.second];
    uint32_t token = 0;
    while (token < tokens_.size() && tokens_[token] != text) ++token;
    if (token == tokens_.size()) tokens_.push_back(text);
    merges_.push_back({pair.first, pair.second, token});
    for (auto& [word, count] : words_) {
      std::vector<uint32_t> joined;
      for (const uint32_t symbol : word) {
        if (!joined.empty() && Ids{joined.back(), symbol} == pair) {
          joined.back() = token;
        } else {
          joined.push_back(symbol);
        }
      }
      word = std::move(joined);
    }
  }

  const bpe::MergeOptions& options_;
  std::vector<std::string> tokens_;
  std::vector<std::pair<std::vector<uint32_t>, uint64_t>> words_;
  std::vector<std::array<uint32_t, 3>> merges_;
};

inline bpe::MergeOptions merge_options(Settings& settings) {
  bpe::MergeOptions options;
  options.tokens.resize(settings.next() % 3);  // special ones: some can be formed, some can't
  for (auto& token : options.tokens)
    if (settings.flag())
      token = std::string{static_cast<char>(settings.next()), static_cast<char>(settings.next())};
  if (options.tokens.size() == 2 && options.tokens[0] == options.tokens[1]) options.tokens[1].reset();
  const uint8_t dropped = settings.next();
  for (unsigned byte = 0; byte < 256; ++byte) {
    options.byte_ids[byte] = -1;
    if (dropped < 64 && byte % 64 == dropped) continue;
    options.byte_ids[byte] = static_cast<int32_t>(options.tokens.size());
    options.tokens.emplace_back(std::string(1, static_cast<char>(byte)));
  }
  // Now and then so many that ids take 32 bits.
  const size_t more = settings.next();
  options.vocab_size = more == 255 ? 70'000 : options.tokens.size() + more % 32;
  options.min_frequency = settings.next() % 4;
  options.max_token_length = settings.flag() ? 1 + settings.next() % 8 : 0;
  options.greatest = settings.flag();
  options.scratch_path = ScratchFolder::file("scratch");
  return options;
}

inline void check_training(const std::string& inventory, bpe::MergeOptions options,
                           const PlainTrainer& expected) {
  const auto trainer = bpe::make_merge_trainer(inventory, std::move(options));
  while (trainer->run(5, std::chrono::hours(1)) > 0) {
  }
  expect(trainer->tokens() == expected.tokens(), "merges: tokens");
  const std::vector<bpe::Merge>& merges = trainer->merges();
  expect(merges.size() == expected.merges().size(), "merges: how many");
  for (size_t at = 0; at < merges.size(); ++at)
    expect(std::array{merges[at].left, merges[at].right, merges[at].token} == expected.merges()[at],
           "merges: order");
}

inline void fuzz_merges(Settings settings) {
  bpe::MergeOptions options = merge_options(settings);
  const size_t over = size_t{settings.next()} * 64;
  const unsigned shift = settings.next() % 4 == 0 ? 40 : 0;
  const Column column = cut_column(settings);
  Words words;
  size_t bytes = 0;
  for (size_t row = 0; row < std::min<size_t>(column.rows(), 12); ++row) {
    if (column.row(row).empty()) continue;
    words[column.row(row)] += uint64_t{1 + row % 3} << shift;
    bytes += 2 * (column.row(row).size() + 1);
  }
  const std::string inventory = write_words("inventory", words);
  const PlainTrainer expected(words, options);
  // Nothing, about what the words take beside the vocabulary, and plenty.
  for (const size_t cap : {over, options.vocab_size * 260 + bytes + over, size_t{1} << 26}) {
    options.cap_bytes = cap;
    check_training(inventory, options, expected);
  }
}

inline void fuzz_damaged_inventory(Settings settings) {
  bpe::MergeOptions options = merge_options(settings);
  options.cap_bytes = size_t{settings.next()} * 1024;
  const std::vector<uint8_t> content(settings.rest(), settings.rest() + settings.rest_size());
  try {
    const auto trainer = bpe::make_merge_trainer(write_file("inventory", content), std::move(options));
    while (trainer->run(100, std::chrono::hours(1)) > 0) {
    }
  } catch (const bpe::DamagedFile&) {
  }
}

// Files make these slow: one input in four will do.
inline void fuzz_training(const uint8_t* data, size_t size) {
  if (size % 4 != 0) return;
  fuzz_counter({data, size});
  fuzz_damaged_spill({data, size});
  fuzz_merges({data, size});
  fuzz_damaged_inventory({data, size});
}

}  // namespace krill::fuzz
