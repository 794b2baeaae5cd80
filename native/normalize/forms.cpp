// NFC, NFD, NFKC and NFKD. A scan passes over what is normalised already; where it stops, the stretch between
// two characters that don't matter to each other is decomposed, ordered and composed, and the scan goes on
// behind it.
#include "normalize/forms.hpp"

#include <algorithm>
#include <array>
#include <memory>

#include "normalize/normalizer.hpp"

namespace krill::normalize {
namespace {

constexpr uint32_t kSyllables = 0xac00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11a7;
constexpr uint32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;
constexpr uint32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

// What two characters become; found in one or two steps.
class Compositions {
 public:
  Compositions() {
    keys_.fill(kEmpty);
    for (size_t pair = 0; pair < kCompositionCount; ++pair) {
      const uint64_t key = key_of(kCompositions[3 * pair], kCompositions[3 * pair + 1]);
      size_t slot = slot_of(key);
      while (keys_[slot] != kEmpty) slot = (slot + 1) % kSlots;
      keys_[slot] = key;
      values_[slot] = kCompositions[3 * pair + 2];
    }
  }

  // kNoPoint if they stay apart.
  uint32_t of(uint32_t first, uint32_t second) const {
    if (second - kVowels < kVowelCount && first - kLeads < kLeadCount)
      return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
    if (second - kTails - 1 < kTailCount - 1 && first - kSyllables < kSyllableCount &&
        (first - kSyllables) % kTailCount == 0)
      return first + (second - kTails);
    const uint64_t key = key_of(first, second);
    for (size_t slot = slot_of(key); keys_[slot] != kEmpty; slot = (slot + 1) % kSlots) {
      if (keys_[slot] == key) return values_[slot];
    }
    return kNoPoint;
  }

 private:
  static constexpr size_t kSlots = 4096;
  static constexpr uint64_t kEmpty = ~uint64_t{0};

  static uint64_t key_of(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }
  static size_t slot_of(uint64_t key) { return key * 0x9e3779b97f4a7c15u >> 52; }

  std::array<uint64_t, kSlots> keys_;
  std::array<uint32_t, kSlots> values_{};
};

const Compositions& compositions() {
  static const Compositions table;
  return table;
}

// A mark's change is 0 or 1 while it is decomposed, and any number from 1 downwards when it was composed.
Mark mark_of(uint32_t point, uint32_t rank, int32_t change) {
  return {point, static_cast<int32_t>(rank) | change * 64};
}
uint32_t rank_of(const Mark& mark) { return static_cast<uint32_t>(mark.rank_and_change) & kRank; }
int32_t change_of(const Mark& mark) { return mark.rank_and_change >> 6; }

class Form final : public Normalizer {
 public:
  Form(bool compose, bool compatible)
      : compose_(compose),
        decomposes_(compatible ? kDecomposesKD : kDecomposesD),
        unsettled_(!compose     ? decomposes_
                   : compatible ? kUnsettledKC
                                : kUnsettledC),
        inside_(compose ? (compatible ? kInsideKC : kInsideC) : (compatible ? kInsideKD : kInsideD)),
        stops_(unsettled_ | kRank),
        page_of_(compatible ? kCompatiblePageOf : kCanonicalPageOf),
        pages_(compatible ? kCompatiblePages : kCanonicalPages),
        pairs_(compositions()),
        plain_([this](uint32_t point) { return (form_word(point) & stops_) != 0; }) {}

  bool leaves(const uint8_t* text, size_t size) const override { return scan(text, size, 0).at == size; }

  void apply(Text& text) const override {
    const uint8_t* data = text.data();
    const size_t size = text.size();
    Stop stop = scan(data, size, 0);
    if (stop.at == size) return;
    Rewriter rewriter(text);
    while (stop.at < size) {
      const Point point = point_at(data, size, stop.at);
      size_t end = stop.at + point.length;
      bool alone = (form_word(point.value) & inside_) == 0;
      while (end < size) {
        const Point next = point_at(data, size, end);
        if ((form_word(next.value) & inside_) == 0) break;
        end += next.length;
        alone = false;
      }
      if (!(alone ? rework_alone(text.marks(), rewriter, point.value, stop.at, end)
                  : rework_joined(rewriter, data, size, stop, end)))
        rework(text.marks(), rewriter, data, size, stop.border, end);
      stop = scan(data, size, end);
    }
    rewriter.finish();
  }

 private:
  // Where the scan can't tell that nothing changes, and a border before it: nothing on one side of it matters
  // to the other.
  struct Stop {
    size_t at;
    size_t border;
  };

  // What the scan knows when it comes to a character.
  struct Before {
    size_t border;
    size_t starter;  // where the last character of class 0 begins, or kNone
    uint32_t rank;   // of the mark after it that comes last, or 0
  };
  static constexpr size_t kNone = ~size_t{0};

  // Characters of equal length follow each other: loops with a constant step don't wait for what they read.
  Stop scan(const uint8_t* text, size_t size, size_t from) const {
    Before before{from, kNone, 0};
    BlockSteps steps(from == 0 ? 0 : from + PlainBytes::kBlock);
    for (size_t at = from; at < size;) {
      if (steps.due(at)) at = steps.pass(plain_, text, size, at);
      const size_t begin = at;
      for (; size - at >= 3 && (text[at] & 0xf0) == 0xe0 && !steps.due(at); at += 3) {
        const uint32_t point =
            (text[at] & 0x0fu) << 12 | (text[at + 1] & 0x3fu) << 6 | (text[at + 2] & 0x3fu);
        if (!goes_on(text, size, at, point, before)) return {at, before.border};
      }
      for (; size - at >= 2 && (text[at] & 0xe0) == 0xc0 && !steps.due(at); at += 2) {
        const uint32_t point = (text[at] & 0x1fu) << 6 | (text[at + 1] & 0x3fu);
        if (!goes_on(text, size, at, point, before)) return {at, before.border};
      }
      if (at < size && text[at] < 0x80) {
        while (++at < size && text[at] < 0x80 && !steps.due(at)) {
        }
        before = {at - 1, at - 1, 0};
      }
      if (at != begin) continue;
      const Point point = point_at(text, size, at);
      if (!goes_on(text, size, at, point.value, before)) return {at, before.border};
      at += point.length;
    }
    return {size, size};
  }

  bool goes_on(const uint8_t* text, size_t size, size_t at, uint32_t point, Before& before) const {
    const uint32_t word = form_word(point);
    const uint32_t own = word & kRank;
    if ((word & unsettled_) != 0 || (own != 0 && own < before.rank)) [[unlikely]] {
      if (!settled(text, size, point, word, before)) return false;
    } else {
      before.border = own == 0 ? at : before.border;
    }
    before.starter = own == 0 ? at : before.starter;
    before.rank = own;
    return true;
  }

  // Whether a character that may change stays as it is.
  bool settled(const uint8_t* text, size_t size, uint32_t point, uint32_t word, const Before& before) const {
    const uint32_t own = word & kRank;
    if (own != 0 && own < before.rank) return false;
    if ((word & unsettled_) == 0) return true;
    if (!compose_ || (word & decomposes_) != 0) return false;
    if (before.starter == kNone) return true;
    const uint32_t starter = point_at(text, size, before.starter).value;
    if ((form_word(starter) & kDecomposesD) != 0) return false;
    const bool blocked = before.rank != 0 && own <= before.rank;
    return blocked || pairs_.of(starter, point) == kNoPoint;
  }

  // A character that nothing around it matters to, [begin, end), if what it decomposes into stays so.
  bool rework_alone(GrowingBuffer<Mark>& marks, Rewriter& rewriter, uint32_t point, size_t begin,
                    size_t end) const {
    marks.truncate(0);
    decompose(point, marks);
    if (compose_ && marks.size() > 1) return false;
    rewriter.keep_to(begin);
    for (size_t i = 0; i < marks.size(); ++i) rewriter.put(marks[i].point, change_of(marks[i]));
    rewriter.drop_to(end);
    return true;
  }

  // A character and marks that all join it, one after the other.
  bool rework_joined(Rewriter& rewriter, const uint8_t* text, size_t size, const Stop& stop,
                     size_t end) const {
    if (!compose_) return false;
    const Point first = point_at(text, size, stop.border);
    if (stop.border + first.length != stop.at || (form_word(first.value) & (decomposes_ | kRank)) != 0)
      return false;
    uint32_t whole = first.value, rank = 0;
    int32_t joined = 0;
    for (size_t at = stop.at; at < end; ++joined) {
      const Point mark = point_at(text, size, at);
      const uint32_t word = form_word(mark.value);
      if ((word & decomposes_) != 0 || (word & kRank) < rank) return false;
      whole = pairs_.of(whole, mark.value);
      if (whole == kNoPoint) return false;
      rank = word & kRank;
      at += mark.length;
    }
    rewriter.keep_to(stop.border);
    rewriter.put(whole, -joined);
    rewriter.drop_to(end);
    return true;
  }

  void rework(GrowingBuffer<Mark>& marks, Rewriter& rewriter, const uint8_t* text, size_t size, size_t begin,
              size_t end) const {
    marks.truncate(0);
    for (size_t at = begin; at < end;) {
      const Point point = point_at(text, size, at);
      decompose(point.value, marks);
      at += point.length;
    }
    order(marks);
    if (compose_) compose(marks);
    rewriter.keep_to(begin);
    size_t at = begin;
    for (size_t i = 0; i < marks.size(); ++i) {
      const int32_t change = change_of(marks[i]);
      const Point old = at < end ? point_at(text, size, at) : Point{kNoPoint, 0};
      if (change == 0 && at < end && old.value == marks[i].point) {
        rewriter.keep_to(at += old.length);
        continue;
      }
      rewriter.put(marks[i].point, change);
      for (int32_t used = change; used <= 0 && at < end; ++used) at += point_at(text, size, at).length;
      rewriter.drop_to(at);
    }
  }

  void decompose(uint32_t point, GrowingBuffer<Mark>& marks) const {
    const uint32_t word = form_word(point);
    if ((word & decomposes_) == 0) return marks.push_back(mark_of(point, word & kRank, 0));
    if (point - kSyllables < kSyllableCount) {
      const uint32_t syllable = point - kSyllables;
      marks.push_back(mark_of(kLeads + syllable / (kVowelCount * kTailCount), 0, 0));
      marks.push_back(mark_of(kVowels + syllable / kTailCount % kVowelCount, 0, 1));
      if (syllable % kTailCount != 0) marks.push_back(mark_of(kTails + syllable % kTailCount, 0, 1));
      return;
    }
    const uint32_t* parts = kDecompositions + pages_[page_of_[point / kPage] * kPage + point % kPage];
    for (uint32_t part = 1; part <= parts[0]; ++part)
      marks.push_back(mark_of(parts[part], form_word(parts[part]) & kRank, part == 1 ? 0 : 1));
  }

  // Marks between two characters of class 0 by their classes, those of equal class in the order of the text.
  static void order(GrowingBuffer<Mark>& marks) {
    constexpr size_t kFew = 16;
    const auto by_rank = [](const Mark& one, const Mark& other) { return rank_of(one) < rank_of(other); };
    Mark* all = marks.data();
    for (size_t begin = 0; begin < marks.size();) {
      size_t end = begin;
      bool ordered = true;
      for (; end < marks.size() && rank_of(all[end]) != 0; ++end)
        ordered = ordered && (end == begin || !by_rank(all[end], all[end - 1]));
      if (ordered) {
      } else if (end - begin > kFew) {
        std::stable_sort(all + begin, all + end, by_rank);
      } else {
        for (size_t i = begin + 1; i < end; ++i) {
          const Mark mark = all[i];
          size_t place = i;
          for (; place > begin && by_rank(mark, all[place - 1]); --place) all[place] = all[place - 1];
          all[place] = mark;
        }
      }
      begin = std::max(end, begin + 1);
    }
  }

  void compose(GrowingBuffer<Mark>& marks) const {
    size_t starter = kNone, count = 0;
    uint32_t last_rank = 0;
    Mark* all = marks.data();
    for (size_t i = 0; i < marks.size(); ++i) {
      const Mark mark = all[i];
      const uint32_t rank = rank_of(mark);
      if (starter != kNone && (last_rank == 0 || last_rank < rank)) {
        const uint32_t whole = pairs_.of(all[starter].point, mark.point);
        if (whole != kNoPoint) {
          all[starter] = mark_of(whole, 0, change_of(all[starter]) + change_of(mark) - 1);
          continue;
        }
      }
      if (rank == 0) starter = count;
      last_rank = rank;
      all[count++] = mark;
    }
    marks.truncate(count);
  }

  bool compose_;
  uint32_t decomposes_, unsettled_, inside_, stops_;
  const uint8_t* page_of_;
  const uint16_t* pages_;
  const Compositions& pairs_;
  PlainBytes plain_;
};

}  // namespace

NormalizerPtr make_form(bool compose, bool compatible) {
  return std::make_shared<const Form>(compose, compatible);
}

}  // namespace krill::normalize
