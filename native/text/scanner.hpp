// Cuts text into the words (pretokens) that byte-level BPE never merges across, as the regexes of public
// tokenizers do: gpt2, cl100k, o200k, llama3, qwen2. The same words as Hugging Face's pre-tokenizer gives.
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

enum class Pattern : uint8_t { gpt2, cl100k, o200k, llama3, qwen2 };

std::optional<Pattern> pattern_named(std::string_view name);

// With less room than this, `scan_words` may write fewer ends than would fit, and goes slowly.
constexpr size_t kScanRoom = 64;

// Writes the ends (offsets from `text`) of successive words from `from` on, where one must begin, at least
// one and up to `capacity` of them, and returns how many. The last end written is where to go on; words cover
// every byte. The end of the text is its real end, and its size is below 4 GiB.
size_t scan_words(Pattern pattern, const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                  size_t capacity);

// A place (0 < place < size) where the text may be cut in two without changing any word of any pattern: the
// last one, or 0 if there is none; the first one at `from` or later, or `size`. The two characters beside a
// place alone decide, so it is found wherever the buffer begins and ends, if both lie inside.
size_t last_cut(const uint8_t* text, size_t size);
size_t first_cut(const uint8_t* text, size_t size, size_t from);

}  // namespace krill::text
