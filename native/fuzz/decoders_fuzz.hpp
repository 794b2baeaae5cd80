// Drives the decoders with tokens taken from the input, and aborts where they break their word: well-formed
// tokens make a well-formed text, and what is fused gives the same text.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/normalize_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "text/utf8.hpp"
#include "tokenizer/decoders.hpp"

namespace krill::fuzz {

inline tokenizer::DecoderStepPtr pick_decoder(Settings& settings) {
  const std::string one(1, static_cast<char>(settings.next() & 127));
  static const std::vector<tokenizer::DecoderStepPtr> fixed = [] {
    std::vector<tokenizer::DecoderStepPtr> made;
    for (const std::string_view expression : kFuzzExpressions)
      made.push_back(tokenizer::replace_regex_decoder(expression, "_"));
    return made;
  }();
  switch (settings.next() % 10) {
    case 0: return tokenizer::byte_level_decoder();
    case 1: return tokenizer::byte_fallback_decoder();
    case 2: return tokenizer::fuse_decoder();
    case 3: return tokenizer::replace_decoder(settings.flag() ? one : "", "__");
    case 4: return tokenizer::strip_decoder(one, settings.next() % 4, settings.next() % 4);
    case 5: return tokenizer::metaspace_decoder(one, settings.flag());
    case 6: return tokenizer::word_piece_decoder(one, settings.flag());
    case 7: return tokenizer::bpe_decoder(one);
    case 8: return tokenizer::ctc_decoder(one, "|", settings.flag());
    default: return fixed[settings.next() % fixed.size()];
  }
}

inline void fuzz_decoders(const uint8_t* data, size_t size) {
  Settings settings(data, size);
  std::vector<tokenizer::DecoderStepPtr> steps;
  for (size_t count = settings.next() % 4; count > 0; --count) steps.push_back(pick_decoder(settings));
  const size_t length = 1 + settings.next() % 9;
  // Tokens of their own allocations, so that a sanitizer sees a read beyond them.
  std::vector<std::string> tokens;
  bool well_formed = true;
  for (size_t at = 0; at < settings.rest_size(); at += length) {
    tokens.emplace_back(settings.rest() + at, settings.rest() + std::min(at + length, settings.rest_size()));
    const auto* token = reinterpret_cast<const uint8_t*>(tokens.back().data());
    well_formed = well_formed && text::utf8_prefix(token, tokens.back().size()).bytes == tokens.back().size();
  }
  const std::vector<std::string_view> views(tokens.begin(), tokens.end());
  const std::string text = tokenizer::Decoder(steps).decode(views);
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  expect(!well_formed || text::utf8_prefix(bytes, text.size()).bytes == text.size(),
         "decoders: well-formed tokens became an ill-formed text");
  steps.push_back(tokenizer::fuse_decoder());
  expect(tokenizer::Decoder(steps).decode(views) == text, "decoders: fused tokens are another text");
  expect(tokenizer::Decoder().decode(views).size() >= settings.rest_size(), "decoders: bytes were lost");
}

}  // namespace krill::fuzz
