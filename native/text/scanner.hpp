// Cuts text into the words (pretokens) that byte-level BPE never merges across, as the regexes of public
// tokenizers do: gpt2, cl100k, o200k, llama3, qwen2, and others that differ from these in few things. The
// same words as Hugging Face's pre-tokenizer gives.
//
// In: bytes that should be UTF-8. Out: where each word ends. Held in memory: nothing but the caller's
// buffers.
//
// Ill-formed UTF-8 is kept: each maximal ill-formed subpart, where Python's `replace` would put U+FFFD,
// counts as one character that is neither letter, number nor space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace krill::text {

// What the regexes of public tokenizers differ in. Words of gpt2's kind have a blank in front; all other
// kinds are `letters`, `numbers`, ` ?[^\s\p{L}\p{N}]+[\r\n]*`, `\s*[\r\n]+`, `\s+(?!\S)`, `\s+`.
struct Pattern {
  enum class Letters : uint8_t {
    after_blank,  // ` ?\p{L}+`, ` ?\p{N}+`, ` ?[^\s\p{L}\p{N}]+`: gpt2; of the rest only contractions count
    after_any,    // `[^\r\n\p{L}\p{N}]?\p{L}+`
    with_marks,   // `[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+`, and marks are letters for other characters, too
    by_case,      // `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+`, else
                  // with `+` and then `*`
  };
  // 's 't 're 've 'm 'll 'd: words before all others; by case, what letters may end with.
  enum class Contractions : uint8_t { none, lower, any_case };
  static constexpr uint8_t kAnyNumber = 255;

  Letters letters;
  Contractions contractions;
  uint8_t numbers;          // most of them in a word: 1, 3 or kAnyNumber
  bool slashes = false;     // `[\r\n/]*` for `[\r\n]*`
  bool ends_whole = false;  // first of all whitespace `\s+` where the text ends

  bool operator==(const Pattern&) const = default;

  static const Pattern gpt2, cl100k, o200k, llama3, qwen2;
};

inline constexpr Pattern Pattern::gpt2{Letters::after_blank, Contractions::lower, kAnyNumber};
// It has `\p{N}{1,3}+`, which Hugging Face's engine reads as any number of such groups, not as possessive.
inline constexpr Pattern Pattern::cl100k{Letters::after_any, Contractions::any_case, kAnyNumber, false, true};
inline constexpr Pattern Pattern::o200k{Letters::by_case, Contractions::any_case, 3, true};
inline constexpr Pattern Pattern::llama3{Letters::after_any, Contractions::any_case, 3};
inline constexpr Pattern Pattern::qwen2{Letters::after_any, Contractions::any_case, 1};

struct NamedPattern {
  std::string_view name;
  Pattern pattern;
};
inline constexpr NamedPattern kNamedPatterns[] = {{"gpt2", Pattern::gpt2},
                                                  {"cl100k", Pattern::cl100k},
                                                  {"o200k", Pattern::o200k},
                                                  {"llama3", Pattern::llama3},
                                                  {"qwen2", Pattern::qwen2}};

std::optional<Pattern> pattern_named(std::string_view name);

// With less room than this, `scan_words` may write fewer ends than would fit, and goes slowly.
constexpr size_t kScanRoom = 64;

// Writes the ends (offsets from `text`) of successive words from `from` on, where one must begin, at least
// one and up to `capacity` of them, and returns how many. The last end written is where to go on; words cover
// every byte. The end of the text is its real end, and its size is below 4 GiB.
size_t scan_words(const Pattern& pattern, const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                  size_t capacity);
// The same without instructions that not every machine has; for tests.
size_t scan_words_plainly(const Pattern& pattern, const uint8_t* text, size_t size, size_t from,
                          uint32_t* ends, size_t capacity);

// A place (0 < place < size) where the text may be cut in two without changing any word of any pattern: the
// last one, or 0 if there is none; the first one at `from` or later, or `size`. The two characters beside a
// place alone decide, so it is found wherever the buffer begins and ends, if both lie inside.
size_t last_cut(const uint8_t* text, size_t size);
size_t first_cut(const uint8_t* text, size_t size, size_t from);

}  // namespace krill::text
