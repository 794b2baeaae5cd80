// The normalizers of `tokenizer.json`, each exactly as Hugging Face's `tokenizers` defines it.
//
// In: UTF-8 (whatever the bytes are, they are read within bounds). Out: the normalised text, see `Text`. Held
// in memory: what a normalizer is made of; it is made once, never changes and is shared by threads.
//
// One thing is left out. In the library a character that was put before the first one, by Prepend of nothing
// or by a Replace that matches nothing there, belongs to no byte of the original, and a step after it that
// goes through all characters then stops the program (it replaces more than there is). Here such steps go on
// as for any other text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "normalize/text.hpp"

namespace krill::normalize {

class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // Whether the text is certain to stay as it is; false may also mean that this was not looked into.
  virtual bool leaves(const uint8_t* text, size_t size) const = 0;
  virtual void apply(Text& text) const = 0;
};

using NormalizerPtr = std::shared_ptr<const Normalizer>;

NormalizerPtr make_form(bool compose, bool compatible);  // NFC, NFD, NFKC, NFKD
NormalizerPtr make_lowercase();
NormalizerPtr make_strip(bool left, bool right);
NormalizerPtr make_strip_accents();
NormalizerPtr make_nmt();
NormalizerPtr make_byte_level();
NormalizerPtr make_bert(bool clean_text, bool handle_chinese_chars, std::optional<bool> strip_accents,
                        bool lowercase);
NormalizerPtr make_prepend(std::string prefix);
NormalizerPtr make_replace(std::string pattern, std::string content);
// Throws std::invalid_argument if the expression is refused.
NormalizerPtr make_replace_regex(std::string_view pattern, std::string content);
// SentencePiece's charsmap, as it is after base64. Throws std::invalid_argument if it is cut short or points
// outside of itself.
NormalizerPtr make_precompiled(std::string_view charsmap);
NormalizerPtr make_sequence(std::vector<NormalizerPtr> steps);

}  // namespace krill::normalize
