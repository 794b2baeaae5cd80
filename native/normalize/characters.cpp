// Normalizers that look at one character at a time: Lowercase, StripAccents, Strip, Nmt, ByteLevel,
// BertNormalizer.
#include "normalize/characters.hpp"

#include <memory>
#include <utility>
#include <vector>

#include "normalize/normalizer.hpp"

namespace krill::normalize {
namespace {

constexpr uint32_t kDottedCapitalI = 0x130;
constexpr uint32_t kDotAbove = 0x307;

// What becomes of a character; kept as it is unless said otherwise.
struct Fate {
  enum Kind : uint8_t { kept, removed, replaced } kind = kept;
  uint32_t point = 0;
};

// Each character is kept, removed or replaced by one other; `Rule::fate(point)` says which.
template <class Rule>
class PerCharacter final : public Normalizer {
 public:
  explicit PerCharacter(Rule rule = {})
      : rule_(rule), plain_([rule](uint32_t point) { return rule.fate(point).kind != Fate::kept; }) {}

  bool leaves(const uint8_t* text, size_t size) const override {
    bool all_kept = true;
    visit(plain_, text, size, [&](size_t, Point point) {
      return all_kept = point.value == kNoPoint || rule_.fate(point.value).kind == Fate::kept;
    });
    return all_kept;
  }

  void apply(Text& text) const override {
    Rewriter rewriter(text);
    visit(plain_, text.data(), text.size(), [&](size_t at, Point point) {
      if (point.value == kNoPoint) return true;
      const Fate fate = rule_.fate(point.value);
      if (fate.kind == Fate::kept) return true;
      rewriter.keep_to(at);
      if (fate.kind == Fate::removed)
        rewriter.remove(1, true);
      else
        rewriter.put(fate.point, 0);
      rewriter.drop_to(at + point.length);
      return true;
    });
    rewriter.finish();
  }

 private:
  Rule rule_;
  PlainBytes plain_;
};

struct RemoveTrait {
  uint32_t trait = 0;
  Fate fate(uint32_t point) const {
    return {(traits_of(point) & trait) != 0 ? Fate::removed : Fate::kept, 0};
  }
};

struct BertCleaning {
  Fate fate(uint32_t point) const {
    const uint32_t traits = traits_of(point);
    if ((traits & kRemovedByCleaning) != 0) return {Fate::removed, 0};
    if ((traits & kSpaceByCleaning) != 0) return {Fate::replaced, ' '};
    return {};
  }
};

struct NmtCleaning {
  Fate fate(uint32_t point) const {
    if (point < 0x20 || (point >= 0x7f && point < 0xa0)) {
      if (point == '\t' || point == '\n' || point == '\f' || point == '\r') return {Fate::replaced, ' '};
      const bool goes = (point > 0 && point < 0x20) || point == 0x7f || point == 0x8f || point == 0x9f;
      return {goes ? Fate::removed : Fate::kept, 0};
    }
    const bool space = point == 0x1680 || (point >= 0x200b && point <= 0x200f) || point == 0x2028 ||
                       point == 0x2029 || point == 0x2581 || point == 0xfeff || point == 0xfffd;
    return {space ? Fate::replaced : Fate::kept, ' '};
  }
};

// BertNormalizer's handle_chinese_chars: a space on either side of each ideograph.
class SpacedIdeographs final : public Normalizer {
 public:
  SpacedIdeographs() : plain_(is_ideograph) {}

  bool leaves(const uint8_t* text, size_t size) const override {
    bool none = true;
    visit(plain_, text, size, [&](size_t, Point point) { return none = !is_ideograph(point.value); });
    return none;
  }

  void apply(Text& text) const override {
    Rewriter rewriter(text);
    visit(plain_, text.data(), text.size(), [&](size_t at, Point point) {
      if (!is_ideograph(point.value)) return true;
      rewriter.keep_to(at);
      rewriter.put(' ', 0);
      rewriter.put(point.value, 1);
      rewriter.put(' ', 1);
      rewriter.drop_to(at + point.length);
      return true;
    });
    rewriter.finish();
  }

 private:
  // The gap before U+2B920 is the library's.
  static bool is_ideograph(uint32_t point) {
    if (point < 0x3400) return false;
    return point <= 0x4dbf || (point >= 0x4e00 && point <= 0x9fff) || (point >= 0xf900 && point <= 0xfaff) ||
           (point >= 0x20000 && point <= 0x2a6df) || (point >= 0x2a700 && point <= 0x2b81f) ||
           (point >= 0x2b920 && point <= 0x2ceaf) || (point >= 0x2f800 && point <= 0x2fa1f);
  }

  PlainBytes plain_;
};

class Lowercase final : public Normalizer {
 public:
  Lowercase()
      : plain_([](uint32_t point) { return is_capital(point) && point >= 0x80; }),
        plain_in_ascii_too_(is_capital) {}

  bool leaves(const uint8_t* text, size_t size) const override {
    bool none = true;
    visit(plain_in_ascii_too_, text, size,
          [&](size_t, Point point) { return none = !is_capital(point.value); });
    return none;
  }

  // The letters of ASCII are kept at first, and lowered where they stand in the end.
  void apply(Text& text) const override {
    if (leaves(text.data(), text.size())) return;
    Rewriter rewriter(text);
    rewriter.drop_to(0);
    visit(plain_, text.data(), text.size(), [&](size_t at, Point point) {
      if (point.value < 0x80 || !is_capital(point.value)) return true;
      rewriter.keep_to(at);
      if (point.value == kDottedCapitalI) {
        rewriter.put('i', 0);
        rewriter.put(kDotAbove, 1);
      } else {
        rewriter.put(point.value + static_cast<uint32_t>(lower_distance(point.value)), 0);
      }
      rewriter.drop_to(at + point.length);
      return true;
    });
    rewriter.finish();
    uint8_t* bytes = text.mutable_data();
    for (size_t at = 0; at < text.size(); ++at)
      bytes[at] |= static_cast<uint8_t>((static_cast<uint8_t>(bytes[at] - 'A') < 26) << 5);
  }

 private:
  static bool is_capital(uint32_t point) { return lower_distance(point) != 0 || point == kDottedCapitalI; }

  PlainBytes plain_, plain_in_ascii_too_;
};

class ByteLevel final : public Normalizer {
 public:
  ByteLevel() {
    uint32_t next = 0x100;
    for (uint32_t byte = 0; byte < 256; ++byte) {
      const bool visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      letters_[byte] = visible ? byte : next++;
    }
  }

  bool leaves(const uint8_t* text, size_t size) const override {
    uint32_t seldom = 0;
    for (size_t at = 0; at < size; ++at) seldom |= static_cast<uint8_t>(text[at] - 0x21) > 0x7e - 0x21;
    return seldom == 0;
  }

  void apply(Text& text) const override {
    const uint8_t* data = text.data();
    const size_t size = text.size();
    Rewriter rewriter(text);
    for (size_t at = 0; at < size;) {
      if (letters_[data[at]] == data[at] && data[at] < 0x80) {
        ++at;
        continue;
      }
      rewriter.keep_to(at);
      const size_t length = point_at(data, size, at).length;
      for (size_t byte = 0; byte < length; ++byte) rewriter.put(letters_[data[at + byte]], byte > 0 ? 1 : 0);
      rewriter.drop_to(at += length);
    }
    rewriter.finish();
  }

 private:
  uint32_t letters_[256];
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

  bool leaves(const uint8_t* text, size_t size) const override {
    return begin_of(text, size) == 0 && end_of(text, size, 0) == size;
  }

  void apply(Text& text) const override {
    const size_t begin = begin_of(text.data(), text.size());
    text.narrow(begin, end_of(text.data(), text.size(), begin));
  }

 private:
  size_t begin_of(const uint8_t* text, size_t size) const {
    size_t at = 0;
    while (left_ && at < size) {
      const Point point = point_at(text, size, at);
      if ((traits_of(point.value) & kWhitespace) == 0) break;
      at += point.length;
    }
    return at;
  }

  size_t end_of(const uint8_t* text, size_t size, size_t begin) const {
    while (right_ && size > begin) {
      size_t last = size - 1;
      while (last > begin && size - last < 4 && (text[last] & 0xc0) == 0x80) --last;
      const Point point = point_at(text, size, last);
      if (last + point.length != size || (traits_of(point.value) & kWhitespace) == 0) break;
      size = last;
    }
    return size;
  }

  bool left_, right_;
};

}  // namespace

NormalizerPtr make_lowercase() { return std::make_shared<const Lowercase>(); }
NormalizerPtr make_strip(bool left, bool right) { return std::make_shared<const Strip>(left, right); }
NormalizerPtr make_strip_accents() {
  return std::make_shared<const PerCharacter<RemoveTrait>>(RemoveTrait{kCombining});
}
NormalizerPtr make_nmt() { return std::make_shared<const PerCharacter<NmtCleaning>>(); }
NormalizerPtr make_byte_level() { return std::make_shared<const ByteLevel>(); }

NormalizerPtr make_bert(bool clean_text, bool handle_chinese_chars, std::optional<bool> strip_accents,
                        bool lowercase) {
  std::vector<NormalizerPtr> steps;
  if (clean_text) steps.push_back(std::make_shared<const PerCharacter<BertCleaning>>());
  if (handle_chinese_chars) steps.push_back(std::make_shared<const SpacedIdeographs>());
  if (strip_accents.value_or(lowercase)) {
    steps.push_back(make_form(false, false));
    steps.push_back(std::make_shared<const PerCharacter<RemoveTrait>>(RemoveTrait{kNonspacing}));
  }
  if (lowercase) steps.push_back(make_lowercase());
  return make_sequence(std::move(steps));
}

}  // namespace krill::normalize
