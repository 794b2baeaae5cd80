// Where text segments begin, as the regex engine of Hugging Face's tokenizers cuts them for `\X` and `\y`:
// extended grapheme clusters, or words.
//
// In: text, and a place in it. Out: whether a segment begins there. Held in memory: the classes of
// characters, 50 KB for each kind of segment that was asked for.
#pragma once

#include <cstddef>
#include <cstdint>

namespace krill::regex {

// `steps` is raised by how many characters were looked at beyond those around the place.
bool begins_grapheme(const uint8_t* text, size_t size, size_t at, uint64_t& steps);
bool begins_word(const uint8_t* text, size_t size, size_t at, uint64_t& steps);

}  // namespace krill::regex
