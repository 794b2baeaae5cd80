#include "language/text.hpp"

#include <algorithm>
#include <iterator>

#include "language/unicode.hpp"

namespace krill::language {

namespace {

using Text = std::span<const uint8_t>;
using Bytes = std::vector<uint8_t>;

Decoded decode_at(Text text, size_t at) { return decode(text.data() + at, text.size() - at); }

constexpr uint32_t kSigma = 0x3a3;
constexpr uint32_t kDottedI = 0x130;  // the one character whose lower case is two

uint32_t lower_of(uint32_t point) {
  const Lower* end = kLower + kLowerSize;
  const Lower* found = std::lower_bound(
      kLower, end, point, [](const Lower& entry, uint32_t sought) { return entry.point < sought; });
  return found != end && found->point == point ? found->lower : point;
}

// Whether a letter follows, after what is looked past.
bool cased_next(Text text, size_t at) {
  while (at < text.size()) {
    const Decoded next = decode_at(text, at);
    const uint8_t flags = traits_of(next.point).flags;
    if ((flags & kCaseIgnorable) == 0) return (flags & kCased) != 0;
    at += next.length;
  }
  return false;
}

// ---- normal form C

struct Element {
  uint32_t point;
  uint32_t combining;
};

// Hangul is composed by arithmetic.
constexpr uint32_t kSyllables = 0xac00, kLeads = 0x1100, kVowels = 0x1161, kTails = 0x11a7;
constexpr uint32_t kLeadCount = 19, kVowelCount = 21, kTailCount = 28;

constexpr uint32_t kSyllableCount = kLeadCount * kVowelCount * kTailCount;

uint32_t compose_pair(uint32_t first, uint32_t second) {
  if (first - kLeads < kLeadCount && second - kVowels < kVowelCount)
    return kSyllables + ((first - kLeads) * kVowelCount + (second - kVowels)) * kTailCount;
  if (first - kSyllables < kSyllableCount && (first - kSyllables) % kTailCount == 0 &&
      second - kTails - 1 < kTailCount - 1)
    return first + (second - kTails);
  const Composition* end = kCompositions + kCompositionsSize;
  const Composition sought{first, second, 0};
  const Composition* found =
      std::lower_bound(kCompositions, end, sought, [](const auto& left, const auto& right) {
        return left.first != right.first ? left.first < right.first : left.second < right.second;
      });
  return found != end && found->first == first && found->second == second ? found->point : 0;
}

void decompose(uint32_t point, std::vector<Element>& out) {
  if (point - kSyllables < kSyllableCount) {
    const uint32_t index = point - kSyllables;
    out.push_back({kLeads + index / (kVowelCount * kTailCount), 0});
    out.push_back({kVowels + index / kTailCount % kVowelCount, 0});
    if (index % kTailCount != 0) out.push_back({kTails + index % kTailCount, 0});
    return;
  }
  const Decomposition* end = kDecompositions + kDecompositionsSize;
  const Decomposition* found =
      std::lower_bound(kDecompositions, end, point,
                       [](const Decomposition& entry, uint32_t sought) { return entry.point < sought; });
  if (found == end || found->point != point) return out.push_back({point, traits_of(point).combining});
  decompose(found->first, out);  // parts have parts: four deep at most
  if (found->second != 0) decompose(found->second, out);
}

// Marks behind each starter by class, those of one class as they stood.
void order_marks(std::vector<Element>& elements) {
  const auto is_starter = [](const Element& element) { return element.combining == 0; };
  for (auto begin = elements.begin(); begin != elements.end();) {
    begin = std::find_if_not(begin, elements.end(), is_starter);
    const auto end = std::find_if(begin, elements.end(), is_starter);
    std::stable_sort(begin, end,
                     [](const Element& a, const Element& b) { return a.combining < b.combining; });
    begin = end;
  }
}

// Joins each mark or letter to the last starter unless something between them blocks it.
void compose(std::vector<Element>& elements) {
  size_t starter = elements.size();  // none yet
  size_t kept = 0;
  uint32_t last_combining = 0;
  for (const Element element : elements) {
    const bool adjacent = starter + 1 == kept;
    if (starter < kept && (adjacent || (last_combining != 0 && last_combining < element.combining))) {
      const uint32_t joined = compose_pair(elements[starter].point, element.point);
      if (joined != 0) {
        elements[starter].point = joined;
        continue;
      }
    }
    if (element.combining == 0) starter = kept;
    last_combining = element.combining;
    elements[kept++] = element;
  }
  elements.resize(kept);
}

// Normalizes the characters from one settled starter to the next: no others can affect each other.
class Normalizer {
 public:
  void add(uint32_t point) { decompose(point, elements_); }

  void flush(Bytes& out) {
    order_marks(elements_);
    compose(elements_);
    for (const Element& element : elements_) append(out, element.point);
    elements_.clear();
  }

 private:
  std::vector<Element> elements_;
};

bool is_settled_starter(Traits traits) { return traits.combining == 0 && (traits.flags & kUnsettled) == 0; }

// Everything below U+0300 is composed and joins nothing before it, and begins with a lower byte.
constexpr uint8_t kFirstLead = 0xcc;

}  // namespace

bool is_upper(Text text) {
  bool any = false;
  for (size_t at = 0; at < text.size();) {
    const uint8_t byte = text[at];
    if (byte < 0x80) {
      if (byte >= 'a' && byte <= 'z') return false;
      any |= byte >= 'A' && byte <= 'Z';
      ++at;
      continue;
    }
    const Decoded here = decode_at(text, at);
    const uint8_t flags = traits_of(here.point).flags;
    if ((flags & kLowerOrTitleCase) != 0) return false;
    any |= (flags & kUpperCase) != 0;
    at += here.length;
  }
  return any;
}

void append_lower(Text text, Bytes& out) {
  bool cased_before = false;
  for (size_t at = 0; at < text.size();) {
    const Decoded here = decode_at(text, at);
    const size_t next = at + here.length;
    const uint8_t flags = traits_of(here.point).flags;
    if (here.point == kNoPoint) {
      out.insert(out.end(), text.data() + at, text.data() + next);
    } else if (here.point == kSigma) {
      append(out, cased_before && !cased_next(text, next) ? 0x3c2 : 0x3c3);
    } else if (here.point == kDottedI) {
      append(out, 'i');
      append(out, 0x307);
    } else {
      append(out, lower_of(here.point));
    }
    if ((flags & kCaseIgnorable) == 0) cased_before = (flags & kCased) != 0;
    at = next;
  }
}

bool is_surely_composed(Text text) {
  const uint8_t* const end = text.data() + text.size();
  uint8_t highest = 0;
  for (const uint8_t byte : text) highest = std::max(highest, byte);
  if (highest < kFirstLead) return true;
  uint8_t last = 0;
  for (const uint8_t* at = text.data(); at < end;) {
    if (*at < kFirstLead) {
      last = *at < 0x80 || *at >= 0xc0 ? 0 : last;
      ++at;
      continue;
    }
    const Decoded here = decode(at, static_cast<size_t>(end - at));
    const Traits traits = traits_of(here.point);
    if ((traits.flags & kUnsettled) != 0 || (traits.combining != 0 && traits.combining < last)) return false;
    last = traits.combining;
    at += here.length;
  }
  return true;
}

void append_composed(Text text, Bytes& out) {
  Normalizer normalizer;
  size_t from = 0;   // of what is copied as it stands
  size_t begin = 0;  // of the last settled starter
  for (size_t at = 0; at < text.size();) {
    Decoded here = decode_at(text, at);
    if (is_settled_starter(traits_of(here.point))) {
      begin = at;
      at += here.length;
      continue;
    }
    out.insert(out.end(), text.data() + from, text.data() + begin);
    // From the starter on, which may be ill-formed and then stays as it is.
    if (begin < at) {
      const Decoded first = decode_at(text, begin);
      if (first.point == kNoPoint) {
        out.insert(out.end(), text.data() + begin, text.data() + at);
      } else {
        normalizer.add(first.point);
      }
    }
    do {
      normalizer.add(here.point);
      at += here.length;
      if (at == text.size()) break;
      here = decode_at(text, at);
    } while (!is_settled_starter(traits_of(here.point)));
    normalizer.flush(out);
    from = begin = at;
  }
  out.insert(out.end(), text.data() + from, text.data() + text.size());
}

Text LanguageText::prepare(Text text) {
  if (is_upper(text)) {
    lowered_.clear();
    lowered_.reserve(text.size());
    append_lower(text, lowered_);
    text = lowered_;
  }
  if (!is_surely_composed(text)) {
    composed_.clear();
    composed_.reserve(text.size());
    append_composed(text, composed_);
    text = composed_;
  }
  return text;
}

}  // namespace krill::language
