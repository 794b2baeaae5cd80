// All words as symbols, in memory or, where they don't fit, in a file that is read window by window.
//
// Layout: an end mark, then each word followed by an end mark. A word that has become shorter is followed by
// several. Words of one count lie together, the highest count first.
//
// A long word, such as a page of text without spaces, lies in blocks, each followed by a link mark but for
// the last, so that a merge touches the blocks that hold its pair and not all of the word. The symbols of a
// block are at its begin; the rest of it is marks, and it may have become empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bpe/postings.hpp"
#include "bpe/records.hpp"
#include "buffer.hpp"

namespace krill::bpe {

template <class Symbol>
class WordStore {
 public:
  static constexpr Symbol kEnd = std::numeric_limits<Symbol>::max();
  static constexpr Symbol kLink = kEnd - 1;  // marks are not below it
  static constexpr size_t kBlockSymbols = 64;
  static constexpr uint32_t kBlockSlots = kBlockSymbols + 1;  // between the starts of two blocks of a word

  // Takes the words of two and more symbols. In memory if they fit `memory_bytes`.
  WordStore(const std::string& inventory, const std::array<int32_t, 256>& ids, size_t memory_bytes,
            size_t window_bytes, const std::string& scratch) {
    const File words(inventory, false);
    lay_out(words, ids);
    window_ = std::max<size_t>(window_bytes / sizeof(Symbol), 16);
    // A word of megabytes is read beside all of them.
    const size_t reading = longest_ > kReadBuffer ? longest_ : 0;
    in_memory_bytes_ = size_ * sizeof(Symbol) + reading;
    if (in_memory_bytes_ <= memory_bytes) {
      memory_.emplace(size_ + kBeyond);
      std::fill_n(memory_->data(), memory_->size(), kEnd);
    } else {
      file_ = std::make_unique<File>(scratch, true);
      file_->truncate(0);
      fill_file_with_ends();
    }
    place(words, ids);
  }

  bool in_memory() const { return memory_.has_value(); }
  size_t size() const { return size_; }
  // The memory with which they would be held in memory.
  size_t in_memory_bytes() const { return in_memory_bytes_; }
  size_t bytes() const {
    return (memory_ ? size_ * sizeof(Symbol) : 2 * window_ * sizeof(Symbol)) + runs_.size() * sizeof(Run);
  }

  // How often the word that begins at `start` occurs.
  uint64_t count_at(uint64_t start) const { return runs_[run_of(start)].count; }

  // visit(left, right, start of the left one's block, count of the word) for every two neighbours in a word.
  template <class Visit>
  void for_each_pair(Visit&& visit) {
    for_each_window([&](const Symbol* data, uint64_t base, size_t size) {
      size_t run = run_of(base);
      size_t block = 0;
      Symbol left = kEnd;
      for (size_t at = 0; at < size; ++at) {
        const Symbol symbol = data[at];
        if (symbol >= kLink) {
          if (symbol == kEnd) left = kEnd;
          continue;
        }
        if (left == kEnd)
          while (run + 1 < runs_.size() && runs_[run + 1].start <= base + at) ++run;
        else
          visit(left, symbol, base + block, runs_[run].count);
        if (data[at - 1] >= kLink) block = at;
        left = symbol;
      }
      return false;
    });
  }

  // visit(block, start, count) -> changed, for every block with a symbol `left` that is followed by `right`,
  // there or in a later block of its word.
  template <class Visit>
  void for_each_match(Symbol left, Symbol right, Visit&& visit) {
    for_each_window([&](Symbol* data, uint64_t base, size_t size) {
      bool changed = false;
      for (size_t at = next_match(data, size, 0, left, right); at < size;
           at = next_match(data, size, at, left, right)) {
        size_t start = at;
        while (data[start - 1] < kLink) --start;
        while (data[at] < kLink) ++at;  // before the visit: it may shorten the block
        changed |= visit(data + start, base + start, runs_[run_of(base + start)].count);
      }
      return changed;
    });
  }

  // The same for the blocks that begin at these positions, in rising order; only in memory.
  template <class Visit>
  void for_each_at(PostingReader<kBlockSlots> starts, Visit&& visit) {
    constexpr size_t kAhead = 16;
    uint32_t ahead[kAhead];
    Symbol* data = memory_->data();
    const auto fetch = [&](size_t at) {
      const uint32_t start = starts.next();
      ahead[at % kAhead] = start;
      // 0 at the end: that place is there. A long block is in two lines or three.
      __builtin_prefetch(data + start, 1);
      __builtin_prefetch(data + start + kBlockSymbols / 2, 1);
    };
    for (size_t at = 0; at < kAhead; ++at) fetch(at);
    size_t run = 0;
    for (size_t at = 0;; ++at) {
      const uint32_t start = ahead[at % kAhead];
      if (start == 0) return;
      fetch(at);
      run = run_from(run, start);
      visit(data + start, start, runs_[run].count);
    }
  }

  // From `at` on: the first symbol `left` of a block with `right` behind it, there or in a later block; or
  // the mark at the block's end. Few one by one, then many at once, as the compiler can compare them.
  static Symbol* next_in_block(Symbol* at, Symbol left, Symbol right) {
    const auto stops = [&](const Symbol* place) {
      return place[0] >= kLink ||
             (place[0] == left &&
              (place[1] == right || (place[1] == kLink && *behind_links(place + 1) == right)));
    };
    for (;;) {
      for (const Symbol* stop = at + kBeyond / 2; at != stop; ++at)
        if (stops(at)) return at;
      for (;; at += kBeyond / 2) {
        unsigned found = 0;
        for (size_t i = 0; i < kBeyond / 2; ++i)
          found |= static_cast<unsigned>(at[i] >= kLink) |
                   (static_cast<unsigned>(at[i] == left) &
                    (static_cast<unsigned>(at[i + 1] == right) | static_cast<unsigned>(at[i + 1] == kLink)));
        if (found) break;
      }
    }
  }

  // The place of the first symbol or end mark from `at` on, and of the last before it.
  template <class Place>
  static Place behind_links(Place at) {
    while (*at == kLink) ++at;
    return at;
  }
  template <class Place>
  static Place before_links(Place at) {
    do --at;
    while (*at == kLink);
    return at;
  }

 private:
  struct Run {
    uint64_t start;  // of its first word
    uint64_t count;
  };

  void lay_out(const File& words, const std::array<int32_t, 256>& ids) {
    std::unordered_map<uint64_t, uint64_t> symbols;
    uint64_t occurrences = 0;
    RecordReader reader(words, 0, words.size(), kReadBuffer);
    Record record;
    while (reader.next(record)) {
      longest_ = std::max(longest_, record.word.size());
      const size_t length = symbols_in(record.word, ids);
      if (length < 2) continue;
      if (record.count == 0 || record.count > (kMostOccurrences - occurrences) / length)
        throw DamagedFile("a word has a count that no corpus gives");
      occurrences += record.count * length;
      symbols[record.count] += slots(length);
    }
    runs_.reserve(symbols.size());
    for (const auto& [count, room] : symbols) runs_.push_back({room, count});
    std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.count > b.count; });
    size_ = 1;
    for (Run& run : runs_) {
      const uint64_t room = run.start;
      run.start = size_;
      size_ += room;
    }
    if (size_ > std::numeric_limits<uint32_t>::max())
      throw std::length_error("the different words have more than 2^32 bytes");
  }

  void place(const File& words, const std::array<int32_t, 256>& ids) {
    std::unordered_map<uint64_t, uint64_t> next;
    for (const Run& run : runs_) next[run.count] = run.start;
    // As large as it will have to be: to grow it would need both, the old one and the new one.
    RecordReader reader(words, 0, words.size(), std::max(kReadBuffer, longest_));
    Record record;
    std::vector<Symbol> word(memory_ ? 0 : slots(longest_));
    while (reader.next(record)) {
      const size_t length = symbols_in(record.word, ids);
      if (length < 2) continue;
      uint64_t& at = next.at(record.count);
      const size_t room = slots(length);
      if ((!memory_ && room > word.size()) || at + room > size_)
        throw DamagedFile("the inventory changed while it was read");
      Symbol* out = memory_ ? memory_->data() + at : word.data();
      size_t placed = 0;
      for (const char byte : record.word) {
        const int32_t id = ids[static_cast<uint8_t>(byte)];
        if (id < 0) continue;
        if (placed != 0 && placed % kBlockSymbols == 0) *out++ = kLink;
        *out++ = static_cast<Symbol>(id);
        ++placed;
      }
      if (!memory_) file_->write(at * sizeof(Symbol), word.data(), (room - 1) * sizeof(Symbol));
      at += room;
    }
  }

  // What a word takes: its symbols, and a mark behind each block.
  static size_t slots(size_t length) { return length + (length + kBlockSymbols - 1) / kBlockSymbols; }

  static size_t symbols_in(std::string_view word, const std::array<int32_t, 256>& ids) {
    size_t length = 0;
    for (const char byte : word) length += ids[static_cast<uint8_t>(byte)] >= 0;
    return length;
  }

  void fill_file_with_ends() {
    const std::vector<Symbol> ends(window_, kEnd);
    for (size_t at = 0; at < size_; at += window_)
      file_->write(at * sizeof(Symbol), ends.data(), std::min(window_, size_ - at) * sizeof(Symbol));
  }

  size_t run_of(uint64_t start) const {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), start,
                                        [](uint64_t value, const Run& run) { return value < run.start; });
    return after == runs_.begin() ? 0 : static_cast<size_t>(after - runs_.begin()) - 1;
  }

  // The run of `start`, which is not before run `from`: by steps that double.
  size_t run_from(size_t from, uint64_t start) const {
    size_t step = 1;
    size_t low = from;
    size_t high = from + 1;
    while (high < runs_.size() && runs_[high].start <= start) {
      low = high;
      step *= 2;
      high += step;
    }
    high = std::min(high, runs_.size());
    while (high - low > 1) {
      const size_t middle = low + (high - low) / 2;
      (runs_[middle].start <= start ? low : high) = middle;
    }
    return low;
  }

  // Where `left` is followed by `right`, at `from` or later; `size` if nowhere. Many at once first, as the
  // compiler can compare them.
  static size_t next_match(const Symbol* data, size_t size, size_t from, Symbol left, Symbol right) {
    constexpr size_t kAtOnce = 64;
    size_t at = from;
    for (;;) {
      for (; at + kAtOnce < size; at += kAtOnce) {
        unsigned found = 0;
        for (size_t i = 0; i < kAtOnce; ++i) {
          const Symbol next = data[at + i + 1];
          found |= static_cast<unsigned>(data[at + i] == left) &
                   (static_cast<unsigned>(next == right) | static_cast<unsigned>(next == kLink));
        }
        if (found) break;
      }
      const size_t stop = std::min(at + kAtOnce, size);
      for (; at < stop && at + 1 < size; ++at)
        if (data[at] == left && *behind_links(data + at + 1) == right) return at;
      if (at + 1 >= size) return size;
    }
  }

  // visit(data, base, size) -> changed; windows begin and end with whole words, and an end mark stands before
  // each.
  template <class Visit>
  void for_each_window(Visit&& visit) {
    if (memory_) {
      visit(memory_->data() + 1, 1, size_ - 1);
      return;
    }
    // An end mark before what is read, and some behind it.
    std::vector<Symbol> window(1 + window_ + kBeyond, kEnd);
    for (uint64_t base = 1; base < size_;) {
      Symbol* data = window.data() + 1;
      const size_t room = window.size() - 1 - kBeyond;
      const size_t got = read(base, data, room);
      size_t whole = got;
      while (whole > 0 && data[whole - 1] != kEnd) --whole;
      if (whole == 0) {
        if (got < room) throw DamagedFile("the file of words is shorter than it was");
        window.assign(1 + 2 * room + kBeyond, kEnd);
        continue;
      }
      if (visit(data, base, whole)) file_->write(base * sizeof(Symbol), data, whole * sizeof(Symbol));
      base += whole;
    }
  }

  size_t read(uint64_t base, Symbol* data, size_t most) const {
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(most, size_ - base));
    return file_->read(base * sizeof(Symbol), data, wanted * sizeof(Symbol)) / sizeof(Symbol);
  }

  static constexpr size_t kReadBuffer = 256 * 1024;
  // So many symbols behind the last one can be read.
  static constexpr size_t kBeyond = 32;
  // Of all symbols: no sum over pairs overflows.
  static constexpr uint64_t kMostOccurrences = uint64_t{1} << 62;

  std::vector<Run> runs_;
  size_t size_ = 0;
  size_t in_memory_bytes_ = 0;
  size_t longest_ = 0;  // bytes of a word
  size_t window_ = 0;
  std::optional<Buffer<Symbol>> memory_;
  std::unique_ptr<File> file_;
};

}  // namespace krill::bpe
