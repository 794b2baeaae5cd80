#include "bpe/merge_trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>

#include "bpe/pair_table.hpp"
#include "bpe/token_list.hpp"
#include "bpe/word_store.hpp"
#include "buffer.hpp"

namespace krill::bpe {

namespace {

// Bytes of a tracked pair: its slot in the table, its entry in the heap, its entry among the candidates.
constexpr size_t kBytesPerPair = 144;
// A slot at the lowest load, and half a table more while it grows.
constexpr size_t kBytesPerScratchPair = 96;
// A table of more pairs would leave the core's own cache, and few pairs beyond are ever merged: measured on
// 1.6M words, 2^16 took as long as 2^20 and 100 MB less.
constexpr size_t kMostPairs = size_t{1} << 16;
constexpr size_t kMostScratch = size_t{1} << 20;
constexpr size_t kBytesPerToken = 260;

// How the bytes of the cap are shared out.
struct Shares {
  size_t words = 0;     // what the words may take
  size_t pairs = 0;     // how many may be tracked
  size_t postings = 0;  // how many may be held
  size_t events = 0;    // how many positions of new pairs one merge may gather
  size_t scratch = 0;   // pairs counted at once when the best are found again
};

// An entry of the heap; its pair may have become rarer since it was pushed.
struct Candidate {
  uint64_t count;
  Pair pair;
};

// A pair while the best are found again.
struct Counted {
  Pair pair;
  uint64_t count;
  uint32_t occurrences;  // in different blocks
};

// What one merge changes, by the neighbour of the merged pair; all zero between merges.
struct Change {
  uint64_t new_left = 0;        // (x, token)
  uint64_t new_right = 0;       // (token, x)
  uint64_t old_left = 0;        // (x, left)
  uint64_t old_right = 0;       // (right, x)
  uint32_t last[2] = {0, 0};    // the last block noted for (x, token) and for (token, x)
  uint32_t events[2] = {0, 0};  // how many blocks were noted
};

template <class Symbol>
class Loop final : public MergeTrainer {
 public:
  Loop(const std::string& inventory, MergeOptions options)
      : options_(std::move(options)),
        tokens_(options_.tokens),
        shares_(before_words()),
        words_(inventory, options_.byte_ids, shares_.words, std::max<size_t>(shares_.words / 8, 256),
               options_.scratch_path + ".words"),
        changes_(options_.vocab_size + 1) {
    if (options_.vocab_size >= WordStore<Symbol>::kLink)
      throw std::length_error("the vocabulary is too large");
    after_words();
    statistics_.symbols = words_.size();
    statistics_.on_disk = !words_.in_memory();
    statistics_.word_bytes = words_.in_memory_bytes();
    // Room for postings of a third of the symbols: then few merges of any text had to scan.
    statistics_.ample_bytes =
        options_.vocab_size * kBytesPerToken +
        std::max(words_.in_memory_bytes() / 15 * 16, words_.in_memory_bytes() + words_.size() / 3 * 10);
    find_best_pairs();
    statistics_.rebuilds = 0;
    statistics_.posted_pairs = posted_pairs_;
  }

  size_t run(size_t most, std::chrono::duration<double> seconds) override {
    const auto deadline = std::chrono::steady_clock::now() + seconds;
    size_t done = 0;
    while (done < most && !finished_ && (done == 0 || std::chrono::steady_clock::now() < deadline)) {
      if (step()) ++done;
    }
    return done;
  }

  const std::vector<Merge>& merges() const override { return merges_; }
  std::vector<std::string> tokens() const override { return tokens_.texts(); }
  MergeStatistics statistics() const override { return statistics_; }

 private:
  // ---- shares

  Shares before_words() const {
    const size_t base = options_.vocab_size * kBytesPerToken;
    const size_t rest = options_.cap_bytes > base ? options_.cap_bytes - base : 0;
    Shares shares;
    // The rest is for pairs; with little of it merging is slow, from a file it is slower still.
    shares.words = rest / 16 * 15;
    return shares;
  }

  void after_words() {
    const size_t base = options_.vocab_size * kBytesPerToken + words_.bytes();
    const size_t rest = options_.cap_bytes > base ? options_.cap_bytes - base : 0;
    const bool posting = words_.in_memory();
    shares_.pairs = std::clamp<size_t>(rest / 5 * 2 / kBytesPerPair, 4, kMostPairs);
    shares_.pairs = std::min(shares_.pairs, std::max<size_t>(words_.size(), 4));
    // Postings beyond twice the symbols could only be of words that no longer hold their pair.
    const size_t postings = std::min(rest / 5 * 2, 2 * words_.size() * sizeof(uint32_t));
    shares_.postings = posting ? std::min<size_t>(postings / sizeof(uint32_t), 0x7fffffff) : 0;
    shares_.events = posting ? std::min(rest / 10, words_.size() * sizeof(Event)) / sizeof(Event) : 0;
    shares_.scratch = std::clamp<size_t>(rest / 5 * 2 / kBytesPerScratchPair, 8, kMostScratch);
    statistics_.planned_bytes =
        base + shares_.pairs * kBytesPerPair + postings + shares_.events * sizeof(Event);
  }

  // ---- order

  // Whether `a` is merged before `b` when both have the same count.
  bool goes_first(Pair a, Pair b) const { return options_.greatest ? tokens_.greater(a, b) : a < b; }

  bool better(uint64_t count, Pair pair, uint64_t other_count, Pair other) const {
    return count != other_count ? count > other_count : pair != other && goes_first(pair, other);
  }

  bool worse(const Candidate& a, const Candidate& b) const {
    return better(b.count, b.pair, a.count, a.pair);
  }

  // Whether a pair of this count must be tracked: those that are not are all behind the bound.
  bool within(uint64_t count, Pair pair) const {
    return !bounded_ || !better(bound_count_, bound_pair_, count, pair);
  }

  void push(uint64_t count, Pair pair) {
    heap_.push_back({count, pair});
    std::push_heap(heap_.begin(), heap_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
  }

  Candidate pop() {
    std::pop_heap(heap_.begin(), heap_.end(), [this](const auto& a, const auto& b) { return worse(a, b); });
    const Candidate top = heap_.back();
    heap_.pop_back();
    return top;
  }

  // ---- one step: true if it merged

  bool step() {
    if (tokens_.size() >= options_.vocab_size) return finish();
    if (must_rebuild_) find_best_pairs();
    if (heap_.empty()) return bounded_ ? rebuild() : finish();
    const Candidate top = pop();
    const PairTable::Entry& entry = *table_.find(top.pair);
    const auto count = static_cast<uint64_t>(entry.count);
    if (count != top.count) {
      if (count != 0) push(count, top.pair);
      return false;
    }
    if (!within(count, top.pair)) return rebuild();
    if (count < options_.min_frequency) return finish();
    const bool scan = entry.posted_at == PairTable::kUnposted;
    if (scan && shares_.postings > 0 && scans_since_rebuild_ >= patience_) return lose_patience();
    ++(scan ? scans_since_rebuild_ : posted_since_rebuild_);
    merge(top.pair);
    return true;
  }

  bool finish() {
    finished_ = true;
    return false;
  }

  bool rebuild() {
    must_rebuild_ = true;
    return false;
  }

  // Many merges had to scan: new postings may help. If the last ones hardly did, there is too little room for
  // them, and as finding them costs some twenty scans, it is tried ever more rarely.
  bool lose_patience() {
    const bool helped = posted_since_rebuild_ >= 4 * patience_;
    patience_ = helped ? kPatience : std::min(patience_ * 2, kMostPatience);
    return rebuild();
  }

  void merge(Pair pair) {
    const uint32_t token = tokens_.join(pair);
    merges_.push_back({left_of(pair), right_of(pair), token});
    noting_ = shares_.postings > 0;
    if (noting_)
      events_.reserve(shares_.events);  // to grow would take half as much again; unused pages take none
    const auto visitor = [&](Symbol* block, uint64_t start, uint64_t count) {
      return merge_block(block, start, count, pair, token);
    };
    PairTable::Entry& entry = *table_.find(pair);
    if (entry.posted_at != PairTable::kUnposted) {
      words_.for_each_at(postings_->data() + entry.posted_at, entry.postings, visitor);
    } else {
      ++statistics_.scans;
      words_.for_each_match(static_cast<Symbol>(left_of(pair)), static_cast<Symbol>(right_of(pair)), visitor);
    }
    apply_changes(pair, token);
    table_.find(pair)->count = 0;
  }

  // Merges a pair in one block, left to right, and notes what that changes. The last one's right side may be
  // in a later block.
  bool merge_block(Symbol* block, uint64_t start, uint64_t count, Pair pair, uint32_t token) {
    const auto left = static_cast<Symbol>(left_of(pair));
    const auto right = static_cast<Symbol>(right_of(pair));
    const auto stands_at = [&](const Symbol* at) {
      return at[0] == left && (at[1] == right || (at[1] == kLink && *Words::behind_links(at + 1) == right));
    };
    Symbol* in = block;
    while (*in < kLink && !stands_at(in)) ++in;
    if (*in >= kLink) return false;
    Symbol* out = in;
    while (*in < kLink) {
      if (!stands_at(in)) {
        *out++ = *in++;
        continue;
      }
      if (out > block)
        joined_left(out[-1], token, start, count);
      else
        joined_left_of_block(block, token, start, count);
      *out++ = static_cast<Symbol>(token);
      if (in[1] == kLink)
        remove_first(Words::behind_links(++in));
      else
        in += 2;
      const Symbol next = *Words::behind_links(in);
      if (next != kEnd) {
        touch(next).old_right += count;
        note(next, token, 1, start, count);
      }
    }
    std::fill(out, in, *in);
    return true;
  }

  void joined_left(uint32_t symbol, uint32_t token, uint64_t start, uint64_t count) {
    touch(symbol).old_left += count;
    note(symbol, token, 0, start, count);
  }

  // The same for a token that begins a block: its left neighbour is in an earlier one, and so is their pair.
  void joined_left_of_block(const Symbol* block, uint32_t token, uint64_t start, uint64_t count) {
    const Symbol* before = Words::before_links(block);
    if (*before == kEnd) return;
    const Symbol* begin = before;
    while (begin[-1] < kLink) --begin;
    joined_left(*before, token, start - static_cast<uint64_t>(block - begin), count);
  }

  static void remove_first(Symbol* block) {
    for (; block[0] < kLink; ++block) block[0] = block[1];
  }

  Change& touch(uint32_t symbol) {
    Change& change = changes_[symbol];
    if ((change.old_left | change.old_right | change.new_left | change.new_right) == 0)
      touched_.push_back(symbol);
    return change;
  }

  // The new pair of `symbol` and the token, on side 0 (symbol first) or 1, in the block at `start`.
  void note(uint32_t symbol, uint32_t token, unsigned side, uint64_t start, uint64_t count) {
    if (too_long(symbol, token)) return;
    Change& change = changes_[symbol];
    (side == 0 ? change.new_left : change.new_right) += count;
    const auto place = static_cast<uint32_t>(start);
    if (change.events[side] != 0 && change.last[side] == place) return;
    change.last[side] = place;
    ++change.events[side];
    if (!noting_) return;
    if (events_.size() >= shares_.events) {
      // Too many: the new pairs go without postings, to be found by a scan.
      noting_ = false;
      events_ = {};
      return;
    }
    events_.push_back({symbol << 1 | side, place});
  }

  bool too_long(uint32_t symbol, uint32_t token) const {
    return options_.max_token_length != 0 &&
           tokens_.text(symbol).size() + tokens_.text(token).size() >= options_.max_token_length;
  }

  // ---- after a merge: the table, the heap, the postings

  void apply_changes(Pair pair, uint32_t token) {
    const uint32_t left = left_of(pair);
    const uint32_t right = right_of(pair);
    fresh_.clear();
    for (const uint32_t symbol : touched_) {
      const Change& change = changes_[symbol];
      gain(pair_of(symbol, token), symbol, 0, change.new_left);
      // (token, left) was formed where a further occurrence of the pair followed, and is gone by now.
      const uint64_t gone = symbol == left ? changes_[token].old_left : 0;
      gain(pair_of(token, symbol), symbol, 1, change.new_right - std::min(change.new_right, gone));
      if (symbol == token) continue;
      lose(pair_of(symbol, left), change.old_left);
      lose(pair_of(right, symbol), change.old_right);
    }
    if (noting_) post_fresh();
    for (const uint32_t symbol : touched_) changes_[symbol] = Change{};
    touched_.clear();
    events_.clear();
  }

  void lose(Pair pair, uint64_t count) {
    if (count == 0) return;
    if (PairTable::Entry* entry = table_.find(pair)) entry->count -= static_cast<int64_t>(count);
  }

  // A pair that the merge has formed.
  void gain(Pair pair, uint32_t symbol, unsigned side, uint64_t count) {
    if (count == 0) return;
    if (!within(count, pair)) return;
    if (table_.full()) {
      must_rebuild_ = true;
      return;
    }
    table_.insert(pair).count = static_cast<int64_t>(count);
    push(count, pair);
    fresh_.push_back({pair, symbol, side});
  }

  // Gives the new pairs their words: postings of exactly the size that they need.
  void post_fresh() {
    for (const Event& event : events_) changes_[event.key >> 1].last[event.key & 1] = kNowhere;
    for (const Fresh& fresh : fresh_) {
      PairTable::Entry& entry = *table_.find(fresh.pair);
      Change& change = changes_[fresh.symbol];
      const size_t size = change.events[fresh.side];
      if (size > shares_.postings - postings_used_) continue;
      entry.posted_at = static_cast<uint32_t>(postings_used_);
      entry.postings = static_cast<uint32_t>(size);
      change.last[fresh.side] = entry.posted_at;
      postings_used_ += size;
    }
    for (const Event& event : events_) {
      uint32_t& place = changes_[event.key >> 1].last[event.key & 1];
      if (place != kNowhere) (*postings_)[place++] = event.start;
    }
  }

  // ---- finding the best pairs again

  void find_best_pairs() {
    ++statistics_.rebuilds;
    must_rebuild_ = false;
    scans_since_rebuild_ = 0;
    posted_since_rebuild_ = 0;
    postings_.reset();
    postings_used_ = 0;
    heap_.clear();
    table_.reset(shares_.pairs);
    std::vector<Counted> best = count_pairs();
    for (const Counted& pair : best) {
      table_.insert(pair.pair).count = static_cast<int64_t>(pair.count);
      push(pair.count, pair.pair);
    }
    post_best(best);
  }

  // The best pairs by count, at most half of what may be tracked, and sets the threshold. If the different
  // pairs don't fit the scratch table, they are counted in several passes, a part of all pairs each.
  std::vector<Counted> count_pairs() {
    for (;; passes_ *= 2) {
      std::vector<Counted> best;
      dropped_ = false;
      bool complete = true;
      for (size_t pass = 0; pass < passes_ && complete; ++pass) complete = count_pass(pass, best);
      if (!complete) continue;
      keep_best(best, shares_.pairs / 2);
      bounded_ = dropped_;
      if (bounded_) {
        const auto last = std::max_element(
            best.begin(), best.end(),
            [this](const Counted& a, const Counted& b) { return better(a.count, a.pair, b.count, b.pair); });
        bound_count_ = last->count;
        bound_pair_ = last->pair;
      }
      return best;
    }
  }

  bool count_pass(size_t pass, std::vector<Counted>& best) {
    PairTable counts;
    counts.reset(shares_.scratch);
    const bool complete = for_each_pair(counts, [&](Pair pair, uint64_t start, uint64_t count) {
      if (passes_ > 1 && (PairTable::hash(pair) >> 40) % passes_ != pass) return true;
      if (counts.full() && counts.find(pair) == nullptr) return false;
      PairTable::Entry& entry = counts.insert(pair);
      entry.count += static_cast<int64_t>(count);
      if (entry.posted_at != start) {  // here the last block that holds the pair
        entry.posted_at = static_cast<uint32_t>(start);
        entry.postings = std::min<uint32_t>(entry.postings + 1, 0x7fffffff);
      }
      return true;
    });
    if (!complete) return false;
    for (const PairTable::Entry& entry : counts.entries()) {
      if (entry.pair == PairTable::kEmpty || never_counted(entry.pair)) continue;
      best.push_back({entry.pair, static_cast<uint64_t>(entry.count), entry.postings});
      if (best.size() >= shares_.pairs) keep_best(best, shares_.pairs / 2);
    }
    return true;
  }

  // visit(pair, start of its block, count of its word) for every pair of every word, until it returns false.
  // The place of a pair in the table is fetched a while before, as most of them are in no cache.
  template <class Visit>
  bool for_each_pair(const PairTable& table, Visit&& visit) {
    constexpr size_t kAhead = 16;
    struct {
      Pair pair;
      uint64_t start;
      uint64_t count;
    } ahead[kAhead];
    size_t waiting = 0;
    bool wanted = true;
    const auto drain = [&] {
      for (size_t at = 0; at < waiting && wanted; ++at)
        wanted = visit(ahead[at].pair, ahead[at].start, ahead[at].count);
      waiting = 0;
    };
    words_.for_each_pair([&](Symbol left, Symbol right, uint64_t start, uint64_t count) {
      if (!wanted) return;
      ahead[waiting] = {pair_of(left, right), start, count};
      table.prefetch(ahead[waiting].pair);
      if (++waiting == kAhead) drain();
    });
    drain();
    return wanted;
  }

  // Pairs that would be too long are none, but for those of two bytes, which were there from the beginning.
  bool never_counted(Pair pair) const {
    const std::string& left = tokens_.text(left_of(pair));
    const std::string& right = tokens_.text(right_of(pair));
    if (left.size() == 1 && right.size() == 1) return false;
    return too_long(left_of(pair), right_of(pair));
  }

  void keep_best(std::vector<Counted>& best, size_t most) {
    most = std::max<size_t>(most, 1);
    if (best.size() <= most) return;
    std::nth_element(
        best.begin(), best.begin() + static_cast<ptrdiff_t>(most), best.end(),
        [this](const Counted& a, const Counted& b) { return better(a.count, a.pair, b.count, b.pair); });
    best.resize(most);
    dropped_ = true;
  }

  // Postings for the best pairs, the best first, and room left for those to come.
  void post_best(std::vector<Counted>& best) {
    if (!words_.in_memory() || shares_.postings == 0) return;
    std::sort(best.begin(), best.end(), [this](const Counted& a, const Counted& b) {
      return better(a.count, a.pair, b.count, b.pair);
    });
    postings_.emplace(shares_.postings);
    const size_t most = bounded_ ? shares_.postings / 3 * 2 : shares_.postings;
    for (const Counted& tracked : best) {
      if (tracked.occurrences > most - std::min(most, postings_used_)) break;
      PairTable::Entry& entry = *table_.find(tracked.pair);
      entry.posted_at = static_cast<uint32_t>(postings_used_);
      postings_used_ += tracked.occurrences;
      ++posted_pairs_;
    }
    for_each_pair(table_, [&](Pair pair, uint64_t start, uint64_t) {
      PairTable::Entry* entry = table_.find(pair);
      if (entry == nullptr || entry->posted_at == PairTable::kUnposted) return true;
      uint32_t* list = postings_->data() + entry->posted_at;
      if (entry->postings != 0 && list[entry->postings - 1] == start) return true;
      list[entry->postings] = static_cast<uint32_t>(start);
      entry->postings = entry->postings + 1;
      return true;
    });
  }

  // A pair that a merge has formed.
  struct Fresh {
    Pair pair;
    uint32_t symbol;
    unsigned side;
  };

  // A block in which a merge has formed a pair.
  struct Event {
    uint32_t key;  // symbol << 1 | side
    uint32_t start;
  };

  using Words = WordStore<Symbol>;
  static constexpr Symbol kEnd = Words::kEnd;
  static constexpr Symbol kLink = Words::kLink;
  static constexpr uint32_t kNowhere = 0xffffffffu;
  static constexpr size_t kPatience = 16;
  static constexpr size_t kMostPatience = 1 << 16;

  MergeOptions options_;
  TokenList tokens_;
  Shares shares_;
  Words words_;
  PairTable table_;
  std::vector<Candidate> heap_;
  std::optional<Buffer<uint32_t>> postings_;
  size_t postings_used_ = 0;
  size_t posted_pairs_ = 0;
  bool bounded_ = false;  // pairs behind the bound are not tracked
  bool dropped_ = false;
  uint64_t bound_count_ = 0;
  Pair bound_pair_ = 0;
  size_t passes_ = 1;
  bool must_rebuild_ = false;
  size_t patience_ = kPatience;
  size_t scans_since_rebuild_ = 0;
  size_t posted_since_rebuild_ = 0;
  std::vector<Change> changes_;
  std::vector<uint32_t> touched_;
  std::vector<Event> events_;
  std::vector<Fresh> fresh_;
  bool noting_ = false;
  std::vector<Merge> merges_;
  MergeStatistics statistics_;
  bool finished_ = false;
};

}  // namespace

std::unique_ptr<MergeTrainer> make_merge_trainer(const std::string& inventory, MergeOptions options) {
  for (const int32_t id : options.byte_ids)
    if (id >= 0 && static_cast<size_t>(id) >= options.tokens.size())
      throw std::invalid_argument("a byte has an id that no token has");
  if (options.tokens.size() > options.vocab_size)
    throw std::invalid_argument("the vocabulary is smaller than its alphabet");
  if (options.vocab_size < WordStore<uint16_t>::kLink)
    return std::make_unique<Loop<uint16_t>>(inventory, std::move(options));
  return std::make_unique<Loop<uint32_t>>(inventory, std::move(options));
}

}  // namespace krill::bpe
