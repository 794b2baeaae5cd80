// Drives the normalizers with text and charsmaps taken from the input, and aborts where they break their
// word: what they leave is left, well-formed text stays so, origins lie in the original and belong to the
// same text, a form that was made once is not made again, and a charsmap that lies is refused.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "normalize/normalizer.hpp"
#include "text/utf8.hpp"

namespace krill::fuzz {

using NormalizedBytes = std::vector<uint8_t>;

inline NormalizedBytes normalized(const normalize::Normalizer& normalizer, const NormalizedBytes& input) {
  static normalize::Text text;  // used again, as a worker does
  text.track(false);
  text.assign(input.data(), input.size());
  normalizer.apply(text);
  return {text.data(), text.data() + text.size()};
}

inline bool is_utf8(const NormalizedBytes& text) {
  return text::utf8_prefix(text.data(), text.size()).bytes == text.size();
}

inline void check_normalizer(const normalize::Normalizer& normalizer, const NormalizedBytes& input) {
  const NormalizedBytes plain = normalized(normalizer, input);
  static normalize::Text text;
  text.track(true);
  text.assign(input.data(), input.size());
  normalizer.apply(text);
  const NormalizedBytes tracked(text.data(), text.data() + text.size());
  expect(plain == tracked, "normalize: another text with origins");
  expect(!normalizer.leaves(input.data(), input.size()) || plain == input,
         "normalize: what it leaves is changed");
  expect(!is_utf8(input) || is_utf8(plain), "normalize: well-formed text became ill-formed");
  expect(text.origins().size() == (text.changed() ? plain.size() : 0),
         "normalize: not one origin for each byte");
  for (const normalize::Origin& origin : text.origins())
    expect(origin.begin <= origin.end && origin.end <= input.size(), "normalize: an origin lies outside");
}

// Expressions that match something, nothing, or both.
inline constexpr std::string_view kFuzzExpressions[] = {"\\s+", "^", "a*", "(?=a)", "[^a-z]", "\\b", "$", ""};

// Made once: their tables are built from all code points.
inline std::vector<normalize::NormalizerPtr> fixed_normalizers() {
  std::vector<normalize::NormalizerPtr> fixed{
      normalize::make_form(true, false),
      normalize::make_form(false, false),
      normalize::make_form(true, true),
      normalize::make_form(false, true),
      normalize::make_lowercase(),
      normalize::make_strip_accents(),
      normalize::make_nmt(),
      normalize::make_byte_level(),
      normalize::make_strip(true, true),
      normalize::make_bert(true, true, std::nullopt, true),
  };
  for (const std::string_view expression : kFuzzExpressions)
    fixed.push_back(normalize::make_replace_regex(expression, "<>"));
  return fixed;
}

inline normalize::NormalizerPtr pick_normalizer(Settings& settings) {
  static const std::vector<normalize::NormalizerPtr> fixed = fixed_normalizers();
  const size_t kind = settings.next() % (fixed.size() + 3);
  if (kind < fixed.size()) return fixed[kind];
  const std::string one(1, static_cast<char>(settings.next())), more(settings.next() % 6, '_');
  if (kind == fixed.size()) return normalize::make_prepend(more);
  return normalize::make_replace(settings.flag() ? one : one + one, more);
}

// A trie with keys of one byte, of which some units are spoiled.
inline std::string fuzz_charsmap(Settings& settings) {
  std::vector<uint32_t> units(768, 0);
  units[0] = 256u << 10;
  const uint32_t step = 1 + settings.next() % 7;
  for (uint32_t byte = 1; byte < 256; byte += step) {
    units[256 + byte] = byte | 1u << 8 | 768u << 10;
    units[512 + byte] = 1u << 31 | byte % 6;
  }
  for (size_t spoiled = settings.next() % 4; spoiled > 0; --spoiled) {
    const size_t place = (settings.next() * 256u + settings.next()) % units.size();
    units[place] = static_cast<uint32_t>(settings.next()) << (settings.next() % 25);
  }
  std::string charsmap(4 + 4 * units.size(), '\0');
  const auto put = [&](size_t at, uint32_t value) {
    for (size_t byte = 0; byte < 4; ++byte) charsmap[at + byte] = static_cast<char>(value >> (8 * byte));
  };
  put(0, static_cast<uint32_t>(4 * units.size()) + settings.next() % 3);
  for (size_t unit = 0; unit < units.size(); ++unit) put(4 + 4 * unit, units[unit]);
  charsmap.append("a\0\0bc\0", 6);
  if (settings.flag()) charsmap.resize(charsmap.size() - settings.next());
  return charsmap;
}

inline void fuzz_normalize(const uint8_t* data, size_t size) {
  Settings settings(data, size);
  std::vector<normalize::NormalizerPtr> steps;
  for (size_t count = settings.next() % 4; count > 0; --count) steps.push_back(pick_normalizer(settings));
  const bool form = settings.flag();
  // Building a charsmap's table asks about every code point: now and then.
  const bool charsmap = settings.next() % 64 == 0;
  if (charsmap) {
    try {
      steps.push_back(normalize::make_precompiled(fuzz_charsmap(settings)));
    } catch (const std::invalid_argument&) {
    }
  }
  const NormalizedBytes input(settings.rest(), settings.rest() + settings.rest_size());
  check_normalizer(*normalize::make_sequence(steps), input);
  if (form && is_utf8(input)) {
    static const normalize::NormalizerPtr forms[] = {
        normalize::make_form(true, false), normalize::make_form(false, false),
        normalize::make_form(true, true), normalize::make_form(false, true)};
    for (const normalize::NormalizerPtr& each : forms) {
      const NormalizedBytes once = normalized(*each, input);
      expect(normalized(*each, once) == once, "normalize: a form was made twice");
    }
  }
  const std::string_view rest(reinterpret_cast<const char*>(settings.rest()), settings.rest_size());
  try {
    (void)normalize::make_precompiled(rest);
  } catch (const std::invalid_argument&) {
  }
}

}  // namespace krill::fuzz
