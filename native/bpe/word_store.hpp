// All words as symbols, in memory or, where they don't fit, in a file that is read window by window.
//
// Layout: an end mark, then each word followed by an end mark. A word that has become shorter is followed by
// several. Words of one count lie together, the highest count first.
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

#include "bpe/records.hpp"
#include "buffer.hpp"

namespace krill {

template <class Symbol>
class WordStore {
 public:
  static constexpr Symbol kEnd = std::numeric_limits<Symbol>::max();

  // Takes the words of two and more symbols. In memory if they fit `memory_bytes`.
  WordStore(const std::string& inventory, const std::array<std::int32_t, 256>& ids, std::size_t memory_bytes,
            std::size_t window_bytes, const std::string& scratch) {
    const File words(inventory, false);
    lay_out(words, ids);
    window_ = std::max<std::size_t>(window_bytes / sizeof(Symbol), 16);
    // A word of megabytes is read beside all of them.
    const std::size_t reading = longest_ > kReadBuffer ? longest_ : 0;
    if (size_ * sizeof(Symbol) + reading <= memory_bytes) {
      memory_.emplace(size_);
      std::fill_n(memory_->data(), size_, kEnd);
    } else {
      file_ = std::make_unique<File>(scratch, true);
      file_->truncate(0);
      fill_file_with_ends();
    }
    place(words, ids);
  }

  bool in_memory() const { return memory_.has_value(); }
  std::size_t size() const { return size_; }
  std::size_t bytes() const {
    return (memory_ ? size_ * sizeof(Symbol) : 2 * window_ * sizeof(Symbol)) + runs_.size() * sizeof(Run);
  }

  // How often the word that begins at `start` occurs.
  std::uint64_t count_at(std::uint64_t start) const { return runs_[run_of(start)].count; }

  // visit(word, start, count) for every word of two or more symbols; it must not change them.
  template <class Visit>
  void for_each_word(Visit&& visit) {
    for_each_window([&](Symbol* data, std::uint64_t base, std::size_t size) {
      std::size_t run = run_of(base);
      for (std::size_t at = 0; at < size;) {
        if (data[at] == kEnd) {
          ++at;
          continue;
        }
        const std::size_t start = at;
        while (data[at] != kEnd) ++at;
        while (run + 1 < runs_.size() && runs_[run + 1].start <= base + start) ++run;
        if (at - start >= 2) visit(data + start, base + start, runs_[run].count);
      }
      return false;
    });
  }

  // visit(word, start, count) -> changed, for every word in which `left` stands before `right`.
  template <class Visit>
  void for_each_match(Symbol left, Symbol right, Visit&& visit) {
    for_each_window([&](Symbol* data, std::uint64_t base, std::size_t size) {
      bool changed = false;
      for (std::size_t at = next_match(data, size, 0, left, right); at < size;
           at = next_match(data, size, at, left, right)) {
        std::size_t start = at;
        while (start > 0 && data[start - 1] != kEnd) --start;
        while (data[at] != kEnd) ++at;  // before the visit: it may shorten the word
        changed |= visit(data + start, base + start, count_at(base + start));
      }
      return changed;
    });
  }

  // The same for the words that begin at these places, in rising order.
  template <class Visit>
  void for_each_at(const std::uint32_t* starts, std::size_t count, Visit&& visit) {
    if (!memory_) return visit_on_disk(starts, count, visit);
    Symbol* data = memory_->data();
    std::size_t run = 0;
    for (std::size_t at = 0; at < count; ++at) {
      if (at + 12 < count) __builtin_prefetch(data + starts[at + 12], 1);
      run = run_from(run, starts[at]);
      visit(data + starts[at], starts[at], runs_[run].count);
    }
  }

 private:
  struct Run {
    std::uint64_t start;  // of its first word
    std::uint64_t count;
  };

  void lay_out(const File& words, const std::array<std::int32_t, 256>& ids) {
    std::unordered_map<std::uint64_t, std::uint64_t> symbols;
    std::uint64_t occurrences = 0;
    RecordReader reader(words, 0, words.size(), kReadBuffer);
    Record record;
    while (reader.next(record)) {
      longest_ = std::max(longest_, record.word.size());
      const std::size_t length = symbols_in(record.word, ids);
      if (length < 2) continue;
      if (record.count == 0 || record.count > (kMostOccurrences - occurrences) / length)
        throw DamagedFile("a word has a count that no corpus gives");
      occurrences += record.count * length;
      symbols[record.count] += length + 1;
    }
    runs_.reserve(symbols.size());
    for (const auto& [count, room] : symbols) runs_.push_back({room, count});
    std::sort(runs_.begin(), runs_.end(), [](const Run& a, const Run& b) { return a.count > b.count; });
    size_ = 1;
    for (Run& run : runs_) {
      const std::uint64_t room = run.start;
      run.start = size_;
      size_ += room;
    }
    if (size_ > std::numeric_limits<std::uint32_t>::max())
      throw std::length_error("the different words have more than 2^32 bytes");
  }

  void place(const File& words, const std::array<std::int32_t, 256>& ids) {
    std::unordered_map<std::uint64_t, std::uint64_t> next;
    for (const Run& run : runs_) next[run.count] = run.start;
    // As large as it will have to be: to grow it would need both, the old one and the new one.
    RecordReader reader(words, 0, words.size(), std::max(kReadBuffer, longest_));
    Record record;
    std::vector<Symbol> word(memory_ ? 0 : longest_);
    while (reader.next(record)) {
      const std::size_t length = symbols_in(record.word, ids);
      if (length < 2) continue;
      std::uint64_t& at = next.at(record.count);
      if ((!memory_ && length > word.size()) || at + length >= size_)
        throw DamagedFile("the inventory changed while it was read");
      Symbol* out = memory_ ? memory_->data() + at : word.data();
      for (const char byte : record.word) {
        const std::int32_t id = ids[static_cast<std::uint8_t>(byte)];
        if (id >= 0) *out++ = static_cast<Symbol>(id);
      }
      if (!memory_) file_->write(at * sizeof(Symbol), word.data(), length * sizeof(Symbol));
      at += length + 1;
    }
  }

  static std::size_t symbols_in(std::string_view word, const std::array<std::int32_t, 256>& ids) {
    std::size_t length = 0;
    for (const char byte : word) length += ids[static_cast<std::uint8_t>(byte)] >= 0;
    return length;
  }

  void fill_file_with_ends() {
    const std::vector<Symbol> ends(window_, kEnd);
    for (std::size_t at = 0; at < size_; at += window_)
      file_->write(at * sizeof(Symbol), ends.data(), std::min(window_, size_ - at) * sizeof(Symbol));
  }

  std::size_t run_of(std::uint64_t start) const {
    const auto after = std::upper_bound(runs_.begin(), runs_.end(), start,
                                        [](std::uint64_t value, const Run& run) { return value < run.start; });
    return after == runs_.begin() ? 0 : static_cast<std::size_t>(after - runs_.begin()) - 1;
  }

  // The run of `start`, which is not before run `from`: by steps that double.
  std::size_t run_from(std::size_t from, std::uint64_t start) const {
    std::size_t step = 1;
    std::size_t low = from;
    std::size_t high = from + 1;
    while (high < runs_.size() && runs_[high].start <= start) {
      low = high;
      step *= 2;
      high += step;
    }
    high = std::min(high, runs_.size());
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (runs_[middle].start <= start ? low : high) = middle;
    }
    return low;
  }

  // Where `left` stands before `right`, at `from` or later; `size` if nowhere. Blocks first, so that the
  // compiler compares many symbols at once.
  static std::size_t next_match(const Symbol* data, std::size_t size, std::size_t from, Symbol left,
                                Symbol right) {
    constexpr std::size_t kBlock = 64;
    std::size_t at = from;
    for (; at + kBlock < size; at += kBlock) {
      unsigned found = 0;
      for (std::size_t i = 0; i < kBlock; ++i)
        found |= static_cast<unsigned>(data[at + i] == left) & static_cast<unsigned>(data[at + i + 1] == right);
      if (found) break;
    }
    for (; at + 1 < size; ++at)
      if (data[at] == left && data[at + 1] == right) return at;
    return size;
  }

  // visit(data, base, size) -> changed; windows begin and end with whole words.
  template <class Visit>
  void for_each_window(Visit&& visit) {
    if (memory_) {
      visit(memory_->data(), 0, size_);
      return;
    }
    std::vector<Symbol> window(window_);
    for (std::uint64_t base = 0; base < size_;) {
      std::size_t got = read(base, window.data(), window.size());
      std::size_t whole = got;
      while (whole > 0 && window[whole - 1] != kEnd) --whole;
      if (whole == 0) {
        if (got < window.size()) throw DamagedFile("the file of words is shorter than it was");
        window.resize(window.size() * 2);
        continue;
      }
      if (visit(window.data(), base, whole))
        file_->write(base * sizeof(Symbol), window.data(), whole * sizeof(Symbol));
      base += whole;
    }
  }

  template <class Visit>
  void visit_on_disk(const std::uint32_t* starts, std::size_t count, Visit& visit) {
    std::vector<Symbol> word(64);
    for (std::size_t at = 0; at < count; ++at) {
      std::size_t got = read(starts[at], word.data(), word.size());
      while (std::find(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(got), kEnd) ==
             word.begin() + static_cast<std::ptrdiff_t>(got)) {
        if (got < word.size()) throw DamagedFile("the file of words is shorter than it was");
        word.resize(word.size() * 2);
        got = read(starts[at], word.data(), word.size());
      }
      if (visit(word.data(), starts[at], count_at(starts[at])))
        file_->write(starts[at] * sizeof(Symbol), word.data(), got * sizeof(Symbol));
    }
  }

  std::size_t read(std::uint64_t base, Symbol* data, std::size_t most) const {
    const std::size_t wanted = static_cast<std::size_t>(std::min<std::uint64_t>(most, size_ - base));
    return file_->read(base * sizeof(Symbol), data, wanted * sizeof(Symbol)) / sizeof(Symbol);
  }

  static constexpr std::size_t kReadBuffer = 256 * 1024;
  // Of all symbols: no sum over pairs overflows.
  static constexpr std::uint64_t kMostOccurrences = std::uint64_t{1} << 62;

  std::vector<Run> runs_;
  std::size_t size_ = 0;
  std::size_t longest_ = 0;  // bytes of a word
  std::size_t window_ = 0;
  std::optional<Buffer<Symbol>> memory_;
  std::unique_ptr<File> file_;
};

}  // namespace krill
