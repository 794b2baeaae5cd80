#include "bpe/merge_trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <limits>
#include <span>

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
  size_t postings = 0;  // bytes of them
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
  uint64_t bytes;  // of its postings, if all its blocks have one
};

// What one merge changes, by the neighbour of the merged pair; all zero between merges.
struct Change {
  uint64_t new_left = 0;       // (x, token)
  uint64_t new_right = 0;      // (token, x)
  uint64_t old_left = 0;       // (x, left)
  uint64_t old_right = 0;      // (right, x)
  uint32_t last[2] = {0, 0};   // the last block noted for (x, token) and for (token, x)
  uint32_t bytes[2] = {0, 0};  // of the postings of all that were noted; then where they are written
};

// Which of 2^18 cells pairs hash to: most pairs are none of a few chosen ones.
class PairFilter {
 public:
  void add(uint32_t left, uint32_t right) { bits_[cell(left, right) / 64] |= bit(left, right); }
  bool may_have(uint32_t left, uint32_t right) const {
    return (bits_[cell(left, right) / 64] & bit(left, right)) != 0;
  }

 private:
  static constexpr unsigned kBits = 18;

  static uint32_t cell(uint32_t left, uint32_t right) {
    return (left * 0x9e3779b1u + right * 0x85ebca77u) >> (32 - kBits);
  }
  static uint64_t bit(uint32_t left, uint32_t right) { return uint64_t{1} << cell(left, right) % 64; }

  std::vector<uint64_t> bits_ = std::vector<uint64_t>((size_t{1} << kBits) / 64);
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
    shares_.postings = posting ? std::min<size_t>(postings, 0x7fffffff) : 0;
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
    if (must_post_) post_again();
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
    if (scan && shares_.postings > 0 && scans_since_rebuild_ >= patience_) {
      push(count, top.pair);
      return lose_patience();
    }
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
  // them, and as finding them costs some ten scans, it is tried ever more rarely.
  bool lose_patience() {
    if (posted_since_rebuild_ >= kPatience * 4)
      patience_ = kPatience / 2;
    else
      patience_ = std::min(patience_ * 2, kMostPatience);
    must_post_ = true;
    return false;
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
    if (const uint32_t at = table_.find(pair)->posted_at; at != PairTable::kUnposted) {
      words_.for_each_at(PostingReader<kBlock>(postings_->data() + at), visitor);
      dead_postings_ += postings_size(postings_->data() + at);
    } else {
      ++statistics_.scans;
      words_.for_each_match(static_cast<Symbol>(left_of(pair)), static_cast<Symbol>(right_of(pair)), visitor);
    }
    table_.find(pair)->count = 0;
    apply_changes(pair, token);
  }

  // Merges a pair in one block, left to right, and notes what that changes. The last one's right side may be
  // in a later block.
  bool merge_block(Symbol* block, uint64_t start, uint64_t count, Pair pair, uint32_t token) {
    const auto left = static_cast<Symbol>(left_of(pair));
    const auto right = static_cast<Symbol>(right_of(pair));
    Symbol* in = Words::next_in_block(block, left, right);
    if (*in >= kLink) return false;
    Symbol* out = in;
    while (*in < kLink) {
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
      Symbol* stop = Words::next_in_block(in, left, right);
      out = std::copy(in, stop, out);
      in = stop;
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
    if (change.last[side] == place) return;
    change.bytes[side] += posting_bytes<kBlock>(place - change.last[side]);
    change.last[side] = place;
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
    PairTable::Entry* entry = table_.find(pair);
    if (entry != nullptr && entry->count != 0) entry->count -= static_cast<int64_t>(count);
  }

  // A pair that the merge has formed.
  void gain(Pair pair, uint32_t symbol, unsigned side, uint64_t count) {
    if (count == 0) return;
    if (!within(count, pair)) return;
    if (table_.full()) {
      drop_worst();
      if (!within(count, pair)) return;
    }
    const uint32_t bytes = changes_[symbol].bytes[side] + kPostingsEnd;
    PairTable::Entry& entry = table_.insert(pair);
    entry.count = static_cast<int64_t>(count);
    entry.density = density(bytes, count);
    push(count, pair);
    if (count >= least_posted_) fresh_.push_back({pair, symbol, side, bytes});
  }

  // Makes room in the table, whose counts are all known: keeps the best half of it, as a search for the best
  // pairs would.
  void drop_worst() {
    const auto in_order = [this](const PairTable::Entry& a, const PairTable::Entry& b) {
      return better(static_cast<uint64_t>(a.count), a.pair, static_cast<uint64_t>(b.count), b.pair);
    };
    std::vector<PairTable::Entry> best;
    best.reserve(table_.used());
    for (const PairTable::Entry& entry : table_.entries()) {
      const auto count = static_cast<uint64_t>(entry.count);
      if (entry.pair != PairTable::kEmpty && count != 0 && within(count, entry.pair)) best.push_back(entry);
    }
    const size_t most = std::max<size_t>(shares_.pairs / 2, 1);
    if (best.size() > most) {
      std::nth_element(best.begin(), best.begin() + static_cast<ptrdiff_t>(most) - 1, best.end(), in_order);
      best.resize(most);
      bounded_ = true;
      bound_count_ = static_cast<uint64_t>(best.back().count);
      bound_pair_ = best.back().pair;
    }
    table_.reset(shares_.pairs);
    heap_.clear();
    for (const PairTable::Entry& entry : best) {
      table_.insert(entry.pair) = entry;
      push(static_cast<uint64_t>(entry.count), entry.pair);
    }
  }

  static float density(uint64_t bytes, uint64_t count) {
    return static_cast<float>(bytes) / static_cast<float>(count);
  }

  // Gives the new pairs their postings, in exactly the bytes that they need.
  void post_fresh() {
    uint64_t needed = 0;
    for (const Fresh& fresh : fresh_) needed += fresh.bytes;
    if (needed > shares_.postings - postings_used_ && dead_postings_ >= shares_.postings / 8) close_gaps();
    for (const uint32_t symbol : touched_) {
      Change& change = changes_[symbol];
      for (unsigned side : {0, 1}) change.last[side] = 0, change.bytes[side] = kNowhere;
    }
    for (const Fresh& fresh : fresh_) {
      if (fresh.bytes > shares_.postings - postings_used_) continue;
      PairTable::Entry* entry = table_.find(fresh.pair);
      if (entry == nullptr) continue;  // dropped for a better one
      const auto at = static_cast<uint32_t>(postings_used_);
      entry->posted_at = at;
      changes_[fresh.symbol].bytes[fresh.side] = at;
      postings_used_ += fresh.bytes;
      (*postings_)[postings_used_ - 1] = 0;
    }
    for (const Event& event : events_) {
      Change& change = changes_[event.key >> 1];
      const unsigned side = event.key & 1;
      if (change.bytes[side] == kNowhere) continue;
      uint8_t* out = postings_->data() + change.bytes[side];
      change.bytes[side] +=
          static_cast<uint32_t>(write_posting<kBlock>(out, event.start - change.last[side]) - out);
      change.last[side] = event.start;
    }
  }

  // Moves postings to where those of merged pairs were.
  void close_gaps() {
    std::vector<std::pair<uint32_t, Pair>> lists;
    for (const PairTable::Entry& entry : table_.entries())
      if (entry.posted_at != PairTable::kUnposted && entry.count != 0)
        lists.emplace_back(entry.posted_at, entry.pair);
    std::sort(lists.begin(), lists.end());
    postings_used_ = 0;
    dead_postings_ = 0;
    for (const auto& [begin, pair] : lists) {
      const uint8_t* list = postings_->data() + begin;
      const size_t bytes = postings_size(list);
      std::memmove(postings_->data() + postings_used_, list, bytes);
      table_.find(pair)->posted_at = static_cast<uint32_t>(postings_used_);
      postings_used_ += bytes;
    }
  }

  // ---- finding the best pairs again

  void find_best_pairs() {
    ++statistics_.rebuilds;
    must_rebuild_ = false;
    postings_.reset();
    heap_.clear();
    table_.reset(shares_.pairs);
    std::vector<Counted> best = count_pairs();
    for (const Counted& pair : best) {
      PairTable::Entry& entry = table_.insert(pair.pair);
      entry.count = static_cast<int64_t>(pair.count);
      entry.density = density(pair.bytes, pair.count);
      push(pair.count, pair.pair);
    }
    post_best(best);
    posted_pairs_ = posted_;
  }

  // New postings for the tracked pairs, whose counts are known.
  void post_again() {
    ++statistics_.postings;
    std::vector<Counted> best;
    best.reserve(table_.used());
    for (const PairTable::Entry& entry : table_.entries()) {
      if (entry.pair == PairTable::kEmpty || entry.count <= 0) continue;
      // Those that are left take as many bytes as others did, or somewhat more.
      const auto bytes = static_cast<double>(entry.density) * static_cast<double>(entry.count);
      best.push_back(
          {entry.pair, static_cast<uint64_t>(entry.count), static_cast<uint64_t>(bytes * 9 / 8) + 16});
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
    const bool complete = for_each_pair(counts, nullptr, [&](Pair pair, uint64_t start, uint64_t count) {
      if (passes_ > 1 && (PairTable::hash(pair) >> 40) % passes_ != pass) return true;
      if (counts.full() && counts.find(pair) == nullptr) return false;
      PairTable::Entry& entry = counts.insert(pair);
      entry.count += static_cast<int64_t>(count);
      // Here the last block that holds the pair.
      const uint32_t last = entry.posted_at == PairTable::kUnposted ? 0 : entry.posted_at;
      if (last != start) {
        entry.posted_at = static_cast<uint32_t>(start);
        entry.bytes += posting_bytes<kBlock>(entry.posted_at - last);
      }
      return true;
    });
    if (!complete) return false;
    for (const PairTable::Entry& entry : counts.entries()) {
      if (entry.pair == PairTable::kEmpty || never_counted(entry.pair)) continue;
      best.push_back({entry.pair, static_cast<uint64_t>(entry.count), entry.bytes + kPostingsEnd});
      if (best.size() >= shares_.pairs) keep_best(best, shares_.pairs / 2);
    }
    return true;
  }

  // visit(pair, start of its block, count of its word) for every pair of every word that the filter doesn't
  // rule out, until it returns false. The place of a pair in the table is fetched a while before, as most of
  // them are in no cache.
  template <class Visit>
  bool for_each_pair(const PairTable& table, const PairFilter* filter, Visit&& visit) {
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
      if (!wanted || (filter != nullptr && !filter->may_have(left, right))) return;
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
    must_post_ = false;
    scans_since_rebuild_ = 0;
    posted_since_rebuild_ = 0;
    postings_used_ = 0;
    dead_postings_ = 0;
    posted_ = 0;
    if (!words_.in_memory() || shares_.postings == 0) return;
    std::sort(best.begin(), best.end(), [this](const Counted& a, const Counted& b) {
      return better(a.count, a.pair, b.count, b.pair);
    });
    if (!postings_) postings_.emplace(shares_.postings);
    // Where most lists took more bytes than were expected, their true sizes are known now.
    if (!fill_postings(best)) fill_postings(best);
  }

  // Whether at least half of the pairs chosen got theirs.
  bool fill_postings(std::vector<Counted>& best) {
    // No more pairs than there are merges left.
    const size_t wanted = std::min(best.size(), options_.vocab_size - tokens_.size());
    uint64_t all = 0;
    for (size_t at = 0; at < wanted; ++at) all += best[at].bytes;
    const bool tight = bounded_ || all > shares_.postings;
    const size_t most = tight ? shares_.postings / 4 * 3 : shares_.postings;
    PairTable chosen;
    chosen.reset(wanted);
    PairFilter filter;
    std::vector<Filling> lists;
    postings_used_ = 0;
    for (const Counted& tracked : std::span(best).first(wanted)) {
      if (tracked.bytes > most - std::min(most, postings_used_)) break;
      chosen.insert(tracked.pair).posted_at = static_cast<uint32_t>(lists.size());
      filter.add(left_of(tracked.pair), right_of(tracked.pair));
      const auto at = static_cast<uint32_t>(postings_used_);
      postings_used_ += tracked.bytes;
      lists.push_back({at, static_cast<uint32_t>(postings_used_)});
    }
    for_each_pair(chosen, &filter, [&](Pair pair, uint64_t start, uint64_t) {
      const PairTable::Entry* entry = chosen.find(pair);
      if (entry != nullptr) lists[entry->posted_at].add(postings_->data(), static_cast<uint32_t>(start));
      return true;
    });
    // What is new and rarer would be merged after these, when postings are found again.
    least_posted_ = lists.empty() || lists.size() == wanted ? 0 : best[lists.size() - 1].count;
    posted_ = 0;
    for (size_t at = 0; at < best.size(); ++at) {
      Counted& tracked = best[at];
      PairTable::Entry& entry = *table_.find(tracked.pair);
      entry.posted_at = PairTable::kUnposted;
      if (at >= lists.size()) continue;
      tracked.bytes = lists[at].bytes + kPostingsEnd;
      entry.density = density(tracked.bytes, tracked.count);
      if (tracked.bytes > lists[at].end - lists[at].begin) continue;
      (*postings_)[lists[at].begin + lists[at].bytes] = 0;
      entry.posted_at = lists[at].begin;
      ++posted_;
    }
    return 2 * posted_ >= lists.size();
  }

  // Postings that are being written. Those that don't fit are counted and not kept.
  struct Filling {
    uint32_t begin;
    uint32_t end;
    uint32_t bytes = 0;
    uint32_t last = 0;  // position

    void add(uint8_t* postings, uint32_t start) {
      if (last == start) return;
      const uint32_t more = posting_bytes<kBlock>(start - last);
      if (bytes + more + kPostingsEnd <= end - begin)
        write_posting<kBlock>(postings + begin + bytes, start - last);
      last = start;
      bytes += more;
    }
  };

  // A pair that a merge has formed.
  struct Fresh {
    Pair pair;
    uint32_t symbol;
    unsigned side;
    uint32_t bytes;  // of its postings
  };

  // A block in which a merge has formed a pair.
  struct Event {
    uint32_t key;  // symbol << 1 | side
    uint32_t start;
  };

  using Words = WordStore<Symbol>;
  static constexpr Symbol kEnd = Words::kEnd;
  static constexpr Symbol kLink = Words::kLink;
  static constexpr uint32_t kBlock = Words::kBlockSlots;
  static constexpr uint32_t kNowhere = 0xffffffffu;
  static constexpr size_t kPatience = 16;
  static constexpr size_t kMostPatience = 1 << 16;

  MergeOptions options_;
  TokenList tokens_;
  Shares shares_;
  Words words_;
  PairTable table_;
  std::vector<Candidate> heap_;
  std::optional<Buffer<uint8_t>> postings_;
  size_t postings_used_ = 0;
  size_t dead_postings_ = 0;   // bytes of pairs that are merged
  uint64_t least_posted_ = 0;  // count of a new pair that is given postings
  size_t posted_ = 0;          // pairs, when postings were found last
  size_t posted_pairs_ = 0;    // and when pairs were counted last
  bool bounded_ = false;       // pairs behind the bound are not tracked
  bool dropped_ = false;
  uint64_t bound_count_ = 0;
  Pair bound_pair_ = 0;
  size_t passes_ = 1;
  bool must_rebuild_ = false;
  bool must_post_ = false;
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
