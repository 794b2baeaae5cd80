// Precompiled: the map of characters that SentencePiece puts into its models.
//
// The map is a trie (a double array of units, keys are bytes) and a string in which replacements end with
// NUL. A grapheme cluster shorter than six bytes is looked up whole, and becomes what its shortest beginning
// in the trie says; any other is looked up character by character.
#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "check.hpp"
#include "normalize/graphemes.hpp"
#include "normalize/normalizer.hpp"
#include "text/utf8.hpp"

namespace krill::normalize {
namespace {

constexpr size_t kLookedUpWhole = 6;

uint32_t unit_at(std::string_view bytes, size_t at) {
  uint32_t value = 0;
  for (size_t byte = 0; byte < 4; ++byte)
    value |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + byte])) << (8 * byte);
  return value;
}

class CharsmapTrie {
 public:
  explicit CharsmapTrie(std::string_view charsmap) {
    expect(charsmap.size() >= 4, "the charsmap is cut short: it has no size of its trie");
    const size_t count = unit_at(charsmap, 0) / 4;
    expect(count > 0, "the charsmap has an empty trie");
    expect(count <= (charsmap.size() - 4) / 4,
           "the charsmap is cut short: its trie is larger than all of it");
    units_.reserve(count);
    for (size_t unit = 0; unit < count; ++unit) units_.push_back(unit_at(charsmap, 4 + 4 * unit));
    replacements_ = charsmap.substr(4 + 4 * count);
    const auto* text = reinterpret_cast<const uint8_t*>(replacements_.data());
    expect(text::utf8_prefix(text, replacements_.size()).bytes == replacements_.size(),
           "the replacements of the charsmap are not UTF-8");
    check();
  }

  // What the shortest beginning of `key` that is in the trie becomes; false if none is.
  bool find(const uint8_t* key, size_t size, std::string_view& replacement) const {
    size_t place = offset(units_[0]);
    for (size_t at = 0; at < size && key[at] != 0; ++at) {
      place ^= key[at];
      if (place >= units_.size() || label(units_[place]) != key[at]) return false;
      const uint32_t unit = units_[place];
      place ^= offset(unit);
      if (has_leaf(unit)) {
        const std::string_view rest = std::string_view(replacements_).substr(value(units_[place]));
        replacement = rest.substr(0, std::min(rest.find('\0'), rest.size()));
        return true;
      }
    }
    return false;
  }

  // Whether some character of a page, whose characters share all bytes but the last, may be found.
  bool has_page(uint32_t page) const {
    uint8_t bytes[4];
    const size_t shared = static_cast<size_t>(write_point(bytes, page * kPage) - bytes) - 1;
    size_t place = offset(units_[0]);
    for (size_t at = 0; at < shared; ++at) {
      place ^= bytes[at];
      if (place >= units_.size() || label(units_[place]) != bytes[at]) return false;
      if (has_leaf(units_[place])) return true;
      place ^= offset(units_[place]);
    }
    return true;
  }

 private:
  static bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
  static size_t value(uint32_t unit) { return unit & 0x7fffffffu; }
  static uint32_t label(uint32_t unit) { return unit & 0x800000ffu; }
  static size_t offset(uint32_t unit) { return static_cast<size_t>(unit >> 10) << ((unit & 512) >> 6); }

  // Walks through all that can be reached. A unit with label c at place p is the child of whatever leads to p
  // ^ c.
  void check() const {
    constexpr uint32_t kNone = ~uint32_t{0};
    const size_t count = units_.size();
    std::vector<uint32_t> first_child(count, kNone), next_child(count, kNone), waiting;
    for (size_t place = 0; place < count; ++place) {
      const uint32_t byte = label(units_[place]);
      if (byte == 0 || byte > 255 || (place ^ byte) >= count) continue;
      next_child[place] = std::exchange(first_child[place ^ byte], static_cast<uint32_t>(place));
    }
    std::vector<bool> seen(count, false);
    const auto reach = [&](size_t place) {
      expect(place < count, "the trie of the charsmap points outside of itself");
      if (!seen[place]) waiting.push_back(static_cast<uint32_t>(place));
      seen[place] = true;
    };
    reach(offset(units_[0]));
    while (!waiting.empty()) {
      const uint32_t base = waiting.back();
      waiting.pop_back();
      for (uint32_t child = first_child[base]; child != kNone; child = next_child[child]) {
        const size_t next = child ^ offset(units_[child]);
        reach(next);
        if (has_leaf(units_[child])) check_replacement(value(units_[next]));
      }
    }
  }

  void check_replacement(size_t begin) const {
    expect(begin <= replacements_.size(), "the trie of the charsmap points behind its replacements");
    expect(begin == replacements_.size() || (static_cast<uint8_t>(replacements_[begin]) & 0xc0) != 0x80,
           "the trie of the charsmap points into a character of its replacements");
  }

  std::vector<uint32_t> units_;
  std::string replacements_;
};

class Precompiled final : public Normalizer {
 public:
  explicit Precompiled(std::string_view charsmap) : trie_(charsmap) {
    // Pages of which nothing is mapped are as many as there are pages of graphemes.
    std::map<uint32_t, uint16_t> unmapped;
    std::map<std::string, uint16_t> numbers;
    for (uint32_t page = 0; page < kPageCount; ++page) {
      const bool may_be_mapped = trie_.has_page(page);
      if (const auto known = unmapped.find(kGraphemePageOf[page]);
          !may_be_mapped && known != unmapped.end()) {
        page_of_[page] = known->second;
        continue;
      }
      std::string kinds(kPage, '\0');
      for (uint32_t place = 0; place < kPage; ++place)
        kinds[place] = static_cast<char>(kind_from_tables(page * kPage + place, may_be_mapped));
      const auto [found, is_new] =
          numbers.try_emplace(std::move(kinds), static_cast<uint16_t>(numbers.size()));
      if (is_new) pages_.insert(pages_.end(), found->first.begin(), found->first.end());
      page_of_[page] = found->second;
      if (!may_be_mapped) unmapped[kGraphemePageOf[page]] = found->second;
    }
    plain_ = PlainBytes([this](uint32_t point) { return (kind_of(point) & kPlain) == 0; });
  }

  bool leaves(const uint8_t* text, size_t size) const override {
    return walk(text, size, [](size_t, size_t, size_t, std::string_view) { return false; });
  }

  void apply(Text& text) const override {
    Rewriter rewriter(text);
    walk(text.data(), text.size(),
         [&](size_t begin, size_t end, size_t characters, std::string_view content) {
           rewriter.keep_to(begin);
           const auto* bytes = reinterpret_cast<const uint8_t*>(content.data());
           size_t written = 0;
           for (size_t at = 0; at < content.size(); ++written) {
             const Point point = point_at(bytes, content.size(), at);
             rewriter.put(point.value, written < characters ? 0 : 1);
             at += point.length;
           }
           if (written < characters) rewriter.remove(characters - written, false);
           rewriter.drop_to(end);
           return true;
         });
    rewriter.finish();
  }

 private:
  static constexpr uint8_t kMapped = 128;  // the character alone becomes something
  static constexpr uint8_t kPlain = 64;    // stays as it is, and has borders on both sides among its like

  uint8_t kind_from_tables(uint32_t point, bool may_be_mapped) const {
    if (point >= kNoPoint) return kPlain;
    const Grapheme grapheme = grapheme_of(point);
    uint8_t bytes[4];
    std::string_view content;
    if (may_be_mapped && trie_.find(bytes, static_cast<size_t>(write_point(bytes, point) - bytes), content))
      return static_cast<uint8_t>(grapheme) | kMapped;
    const bool plain = stands_alone(grapheme) || grapheme == Grapheme::control || grapheme == Grapheme::lf;
    return static_cast<uint8_t>(static_cast<uint8_t>(grapheme) | (plain ? kPlain : 0));
  }

  uint8_t kind_of(uint32_t point) const {
    return pages_[page_of_[point / kPage] * size_t{kPage} + point % kPage];
  }
  static Grapheme grapheme_in(uint8_t kind) { return static_cast<Grapheme>(kind & 31); }

  // Calls `change(begin, end, characters, content)` for each stretch that becomes something, until it returns
  // false; says whether it never did.
  template <class Change>
  bool walk(const uint8_t* text, size_t size, Change&& change) const {
    for (PlainScan scan(plain_, text, size); scan.find();) {
      size_t at = scan.at();
      const Point point = point_at(text, size, at);
      if ((kind_of(point.value) & kPlain) != 0) {
        scan.pass(point.length);
        continue;
      }
      // It may belong to the character before it.
      if (scan.before() != PlainScan::kNone) at = scan.before();
      do {
        if (!cluster(text, size, at, change)) return false;
      } while (at < size && (kind_of(point_at(text, size, at).value) & kPlain) == 0);
      scan.go_on(at);
    }
    return true;
  }

  // Goes over the cluster at `at`.
  template <class Change>
  bool cluster(const uint8_t* text, size_t size, size_t& at, Change&& change) const {
    const size_t begin = at;
    const Point first = point_at(text, size, begin);
    const uint8_t first_kind = kind_of(first.value);
    Cluster cluster(grapheme_in(first_kind));
    size_t end = begin + first.length, characters = 1;
    for (; end < size; ++characters) {
      const Point next = point_at(text, size, end);
      if (!cluster.takes(grapheme_in(kind_of(next.value)))) break;
      end += next.length;
    }
    at = end;
    std::string_view content;
    if (characters == 1 && (first_kind & kMapped) == 0) return true;
    if (end - begin < kLookedUpWhole && trie_.find(text + begin, end - begin, content))
      return change(begin, end, characters, content);
    for (size_t place = begin; place < end;) {
      const Point point = point_at(text, size, place);
      if ((kind_of(point.value) & kMapped) != 0 && trie_.find(text + place, point.length, content) &&
          !change(place, place + point.length, 1, content))
        return false;
      place += point.length;
    }
    return true;
  }

  CharsmapTrie trie_;
  std::vector<uint8_t> pages_;
  uint16_t page_of_[kPageCount];
  PlainBytes plain_;
};

}  // namespace

NormalizerPtr make_precompiled(std::string_view charsmap) {
  return std::make_shared<const Precompiled>(charsmap);
}

}  // namespace krill::normalize
