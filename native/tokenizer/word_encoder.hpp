// Text without special tokens to ids: cut into words, which are looked up in the cache or given to the model.
//
// In: a range of text. Out: ids, of the smallest type that holds the vocabulary. Held in memory: the cache,
// the cutter's and the model's scratch. One thread at a time uses a WordEncoder; the model is shared.
//
// Words go through in batches: all are looked up first, then the model gets those that were not found, since
// it works on several at once, and then the ids are put in order. A batch goes on from one text to the next,
// since a tokenizer whose added tokens are line ends has a text for every line. Words that are longer than a
// short entry of the cache are looked up in pieces where the model says how to cut them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "growing_buffer.hpp"
#include "tokenizer/model.hpp"
#include "tokenizer/word_cache.hpp"
#include "tokenizer/word_cutter.hpp"

namespace krill::tokenizer {

// Pieces count as words.
struct WordStatistics {
  uint64_t words = 0;
  uint64_t bytes = 0;
  uint64_t misses = 0;  // words that the model encoded
  uint64_t miss_bytes = 0;
  // Those whose time is known: reading the clock takes as long as a short word.
  uint64_t timed_bytes = 0;
  uint64_t timed_nanoseconds = 0;

  void add(const WordStatistics& other);
};

// Where a token's bytes lie in a text.
struct TokenRange {
  uint32_t begin;
  uint32_t end;
};

template <class Id>
class WordEncoder {
 public:
  // A smaller cache is rounded up to this.
  static constexpr size_t kLeastCache = 16 * 1024;
  static constexpr size_t kSharedScratch = 64 * 1024;

  // `long_words` is held while a word longer than kSharedScratch is encoded, so that its scratch exists once.
  // Throws std::invalid_argument if an id of the model doesn't fit.
  WordEncoder(const Model& model, std::unique_ptr<WordCutter> cutter, size_t cache_bytes,
              std::mutex& long_words);

  // The text is shorter than WordCutter::kTooLong, and `readable` bytes from `text` on may be read, at least
  // `size`: then words near its end take no longer than others. Some of the ids come with later calls.
  // Ids come out as `Out`, which is Id or wider.
  template <class Out>
  void encode(const uint8_t* text, size_t size, size_t readable, GrowingBuffer<Out>& ids);
  // An id that stands between two texts.
  void add(Id id);
  // Adds the ids that were kept back.
  template <class Out>
  void finish(GrowingBuffer<Out>& ids);
  // Instead of `finish`, after anything has thrown.
  void discard();

  // The ids of one text with the bytes of the text that each token stands for, as the library's offsets in
  // it.
  void encode_ranges(const uint8_t* text, size_t size, GrowingBuffer<Id>& ids,
                     GrowingBuffer<TokenRange>& ranges);

  // Of everything since the last call.
  WordStatistics take_statistics() { return std::exchange(statistics_, {}); }

 private:
  // Words cut at a time: near the end of its buffer the scanner is slow.
  static constexpr size_t kBatch = 1024;
  // Not the size of any word: the unit is an id.
  static constexpr uint32_t kAdded = 0x7fffffff;
  // Words located in the cache before the first is looked up, so that their sets are prefetched.
  static constexpr size_t kAhead = 64;
  // A word that takes this many nanoseconds a byte or more was interrupted by another program.
  static constexpr size_t kInterrupted = 500;

  using ShortTable = WordTable<Id, 2, 32>;
  using LongTable = WordTable<Id, 5, 64>;
  using LongestTable = WordTable<Id, 20, 256>;

  struct Text {
    const uint8_t* data = nullptr;
    size_t size = 0;
    size_t readable = 0;
  };
  // A word or a piece of one, or an id.
  struct Unit {
    typename ShortTable::Key key;  // of a short word; a long one's is cheaper to make again than to keep
    void* set;                     // of the table that its length says
    uint32_t begin;                // in its text; of a missed word in `missed_text_`; or the id
    uint32_t size : 31;
    uint32_t is_piece : 1;
  };
  // A word that was not in the cache, and where its ids belong.
  struct Miss {
    uint32_t number;  // of `missed_`
    uint32_t before;  // ids of the batch that come first
  };

  size_t add_short_words(const Text& text, size_t& begin, const uint32_t* ends, size_t count,
                         bool are_pieces);
  template <class AddLong>
  void add_words(const Text& text, size_t& begin, const uint32_t* ends, size_t count, bool are_pieces,
                 AddLong&& add_long);
  void add_unit(const Text& text, size_t begin, size_t end, bool is_piece);
  template <class Out>
  void add_word(const Text& text, size_t begin, size_t end, GrowingBuffer<Out>& ids);
  template <class Out>
  void add_pieces(const Text& text, size_t begin, size_t end, bool is_piece, GrowingBuffer<Out>& ids);
  void look_up(const Text& text);
  template <class Table>
  Id* look_up_in(const Unit& unit, const typename Table::Key& key, const uint8_t* text, Id* out);
  template <class Table>
  void add_miss(const typename Table::Entry* entry, const Unit& unit, const typename Table::Key& key,
                const uint8_t* word, const Id* out);
  template <class Out>
  void finish_batch(const Text& text, GrowingBuffer<Out>& ids);
  void encode_missed();
  void clear_batch();
  template <class Out>
  void encode_long(const uint8_t* word, size_t size, bool is_piece, GrowingBuffer<Out>& ids);
  // Of `encode_ranges`, which goes word by word.
  void add_ranges(const uint8_t* text, size_t size, size_t begin, size_t end, GrowingBuffer<Id>& ids,
                  GrowingBuffer<TokenRange>& ranges);
  bool add_unit_lengths(const Text& text, const Unit& unit);
  void add_whole_lengths(const uint8_t* word, size_t size);
  template <class Table>
  size_t unit_ids(const Unit& unit, const typename Table::Key& key, const uint8_t* word, uint32_t* ids);
  void resolve(const Unit& unit, const BatchWord& word);

  const Model& model_;
  const PieceCutter* pieces_;
  std::unique_ptr<WordCutter> cutter_;
  std::unique_ptr<ModelScratch> scratch_;
  std::mutex& long_words_mutex_;
  ShortTable short_words_;
  LongTable long_words_;
  LongestTable longest_words_;
  WordStatistics statistics_;

  uint32_t ends_[kBatch];
  uint32_t run_ends_[kBatch];
  uint32_t piece_ends_[kBatch];
  Unit units_[kAhead];
  size_t unit_count_ = 0;
  bool long_units_ = false;  // whether some of them are longer than short words, whose key has all of them
  size_t batched_ = 0;       // units of the batch that were looked up
  // Ids of the batch's words that were found.
  GrowingBuffer<Id> found_;
  std::vector<Miss> misses_;
  std::vector<BatchWord> missed_;
  std::vector<Unit> missed_units_;
  GrowingBuffer<uint8_t> missed_text_;  // texts may be gone when their batch ends
  GrowingBuffer<uint32_t> missed_ids_;
  GrowingBuffer<uint32_t> word_ids_;
  GrowingBuffer<uint32_t> word_lengths_;
  std::vector<uint32_t> letters_;
};

}  // namespace krill::tokenizer
