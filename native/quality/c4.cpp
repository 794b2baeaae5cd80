// C4's rules: drops lines that are not sentences, citations, and documents with too little left.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "quality/filters.hpp"
#include "quality/lines.hpp"
#include "quality/sentences.hpp"
#include "text/byte_scan.hpp"

namespace krill::quality {
namespace {

using namespace std::string_view_literals;

enum Reason : size_t { kKept, kLoremIpsum, kCurlyBracket, kTooFewSentences };

using Bytes = GrowingBuffer<uint8_t>;

constexpr std::string_view kPolicyPhrases[] = {"terms of use"sv, "privacy policy"sv, "cookie policy"sv,
                                               "uses cookies"sv, "use of cookies"sv, "use cookies"sv};

bool contains(const Bytes& text, std::string_view phrase) {
  const uint8_t* end = text.data() + text.size();
  const auto* needle = reinterpret_cast<const uint8_t*>(phrase.data());
  return text.size() != 0 && text::find_bytes(text.data(), end, needle, phrase.size()) != end;
}

// The length of a citation that begins with the bracket at the front, or 0: `[12]`, `[edit]`, `[citation
// needed]`.
size_t citation_length(const uint8_t* text, size_t size) {
  size_t at = 1;
  while (at < size) {
    const Character here = character_at(text + at, size - at);
    if ((traits_of(here.point) & kDecimal) == 0) break;
    at += here.length;
  }
  if (at < size && text[at] == ']') return at + 1;
  for (const std::string_view note : {"[edit]"sv, "[citation needed]"sv})
    if (view(text, size).starts_with(note)) return note.size();
  return 0;
}

void append_without_citations(Bytes& out, const uint8_t* text, size_t size) {
  for (size_t at = 0; at < size;) {
    const void* found = std::memchr(text + at, '[', size - at);
    const size_t bracket =
        found == nullptr ? size : static_cast<size_t>(static_cast<const uint8_t*>(found) - text);
    out.append(text + at, bracket - at);
    at = bracket;
    if (bracket == size) return;
    const size_t length = citation_length(text + bracket, size - bracket);
    if (length == 0) out.push_back('[');
    at += length == 0 ? 1 : length;
  }
}

// As str.lower does, as far as phrases in ASCII can tell: of all other characters only the Kelvin sign
// becomes a letter of theirs.
void lower_into(Bytes& out, const uint8_t* text, size_t size) {
  constexpr std::string_view kKelvin = "\u212a"sv;
  out.truncate(0);
  out.append(text, size);
  uint8_t* bytes = out.data();
  size_t end = 0;
  for (size_t at = 0; at < size; ++at) {
    const uint8_t byte = text[at];
    if (byte == 0xe2 && view(text + at, size - at).starts_with(kKelvin)) {
      bytes[end++] = 'k';
      at += kKelvin.size() - 1;
    } else {
      bytes[end++] = byte >= 'A' && byte <= 'Z' ? static_cast<uint8_t>(byte | 0x20) : byte;
    }
  }
  out.truncate(end);
}

struct SpacedWords {
  size_t count = 0;
  size_t longest = 0;  // characters
};

// What str.split gives.
SpacedWords spaced_words(const uint8_t* text, size_t size) {
  SpacedWords found;
  size_t characters = 0;
  for (size_t at = 0; at < size;) {
    const Character here = character_at(text + at, size - at);
    at += here.length;
    if (traits_of(here.point) & kSpace) {
      characters = 0;
    } else {
      found.count += characters++ == 0;
      found.longest = std::max(found.longest, characters);
    }
  }
  return found;
}

bool ends_like_a_sentence(std::string_view line) {
  return !line.empty() && ".?!\"'"sv.find(line.back()) != std::string_view::npos && !line.ends_with("...");
}

size_t count_sentences(const uint8_t* text, size_t size) {
  size_t count = 0;
  split_sentences(text, size, [&](Span) { ++count; });
  return count;
}

class C4 final : public Filter {
 public:
  explicit C4(C4Rules rules) : rules_(rules) {}

  std::vector<std::string> reasons() const override {
    return {"c4_lorem_ipsum", "c4_curly_bracket", "c4_too_few_sentences"};
  }

  std::vector<Statistic> statistics() const override {
    return {{"c4_lines_removed", true}, {"c4_sentences", true}};
  }

  unsigned scratch_parts() const override { return kTextsPart; }

  size_t judge(Scratch& scratch, double* values) const override {
    const Document& document = scratch.document;
    const uint8_t* text = document.text();
    scratch.draft.truncate(0);
    Progress progress;
    const auto take = [&](Span line) {
      if (progress.reason == kKept) judge_line(scratch, text, stripped(text, line), progress);
    };
    if (rules_.split_paragraph)
      split_lines(text, document.size(), take);
    else
      split_sentences(text, document.size(), take);
    if (progress.reason != kKept) return progress.reason;
    if (progress.sentences < rules_.min_num_sentences) return kTooFewSentences;
    const auto size = static_cast<uint32_t>(scratch.draft.size());
    scratch.accept_draft(stripped(scratch.draft.data(), {0, size}));
    if (values != nullptr) {
      values[0] = static_cast<double>(progress.removed);
      values[1] = static_cast<double>(progress.sentences);
    }
    return kKept;
  }

 private:
  struct Progress {
    size_t reason = kKept;
    size_t kept = 0;
    size_t removed = 0;
    size_t sentences = 0;
  };

  // Appends the line to the draft if it stays.
  void judge_line(Scratch& scratch, const uint8_t* text, Span line, Progress& progress) const {
    const size_t before = scratch.draft.size();
    if (progress.kept > 0) scratch.draft.push_back(rules_.split_paragraph ? '\n' : ' ');
    const size_t begin = scratch.draft.size();
    ++scratch.line_counts[kLineTotal];
    if (stays(scratch, text + line.begin, line.size, progress.reason)) {
      ++scratch.line_counts[kLineKept];
      ++progress.kept;
      const uint8_t* kept = scratch.draft.data() + begin;
      progress.sentences += rules_.split_paragraph ? count_sentences(kept, scratch.draft.size() - begin) : 1;
    } else {
      ++progress.removed;
      scratch.draft.truncate(before);
    }
  }

  static bool goes(Scratch& scratch, LineFate fate) {
    ++scratch.line_counts[fate];
    return false;
  }

  bool stays(Scratch& scratch, const uint8_t* line, size_t size, size_t& reason) const {
    const SpacedWords words = spaced_words(line, size);
    if (words.longest > rules_.max_word_length) return goes(scratch, kLineTooLongWord);
    const size_t begin = scratch.draft.size();
    if (rules_.remove_citations)
      append_without_citations(scratch.draft, line, size);
    else
      scratch.draft.append(line, size);
    const std::string_view kept = view(scratch.draft.data() + begin, scratch.draft.size() - begin);
    if (rules_.filter_no_terminal_punct && !ends_like_a_sentence(kept))
      return goes(scratch, kLineNoTerminalPunct);
    if (words.count < rules_.min_words_per_line) return goes(scratch, kLineTooFewWords);
    lower_into(scratch.lowered, scratch.draft.data() + begin, kept.size());
    if (rules_.filter_lorem_ipsum && contains(scratch.lowered, "lorem ipsum")) {
      reason = kLoremIpsum;
      return false;
    }
    if (rules_.filter_javascript && contains(scratch.lowered, "javascript"))
      return goes(scratch, kLineJavascript);
    if (rules_.filter_curly_bracket && kept.find('{') != std::string_view::npos) {
      reason = kCurlyBracket;
      return false;
    }
    if (rules_.filter_policy && has_policy_phrase(scratch.lowered)) return goes(scratch, kLinePolicy);
    return true;
  }

  static bool has_policy_phrase(const Bytes& lowered) {
    for (const std::string_view phrase : kPolicyPhrases)
      if (contains(lowered, phrase)) return true;
    return false;
  }

  C4Rules rules_;
};

}  // namespace

std::unique_ptr<Filter> make_c4(C4Rules rules) { return std::make_unique<C4>(rules); }

}  // namespace krill::quality
