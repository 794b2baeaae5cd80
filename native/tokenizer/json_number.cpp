#include "tokenizer/json_number.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "corpus/json_grammar.hpp"

namespace krill::tokenizer {

namespace {

const std::array<double, 309>& powers_of_ten() {
  static const std::array<double, 309> powers = [] {
    std::array<double, 309> made{};
    for (unsigned exponent = 0; exponent < made.size(); ++exponent) {
      char text[8];
      std::snprintf(text, sizeof text, "1e%u", exponent);
      made[exponent] = std::strtod(text, nullptr);
    }
    return made;
  }();
  return powers;
}

bool is_json_number(std::string_view text) {
  if (text.empty()) return false;
  corpus::Number state = corpus::begin_number(static_cast<uint8_t>(text[0]));
  for (size_t i = 1; i < text.size(); ++i)
    state = corpus::continue_number(state, static_cast<uint8_t>(text[i]));
  return corpus::is_whole(state);
}

// Digits as far as they fit 64 bits, and the power of ten that they are multiplied with.
struct Parts {
  uint64_t digits = 0;
  int64_t exponent = 0;
  bool full = false;  // further digits are left out

  void add(char c, bool is_fraction) {
    const auto digit = static_cast<uint64_t>(c - '0');
    constexpr uint64_t kMost = std::numeric_limits<uint64_t>::max();
    full = full || digits > kMost / 10 || (digits == kMost / 10 && digit > kMost % 10);
    if (!full) digits = digits * 10 + digit;
    // In front of the point, a digit that is left out counts for the exponent.
    exponent += full ? !is_fraction : -static_cast<int64_t>(is_fraction);
  }
};

JsonNumber scaled(const Parts& parts, bool negative) {
  const std::array<double, 309>& powers = powers_of_ten();
  auto value = static_cast<double>(parts.digits);
  int64_t exponent = parts.exponent;
  while (value != 0 && exponent < -308) {
    value /= 1e308;
    exponent += 308;
  }
  if (value != 0) {
    if (exponent > 308) return {JsonNumber::Kind::kTooLarge};
    if (exponent >= 0)
      value *= powers[static_cast<size_t>(exponent)];
    else
      value /= powers[static_cast<size_t>(-exponent)];
    if (std::isinf(value)) return {JsonNumber::Kind::kTooLarge};
  }
  return {JsonNumber::Kind::kFloat, 0, negative ? -value : value};
}

}  // namespace

JsonNumber parse_json_number(std::string_view text) {
  if (!is_json_number(text)) return {JsonNumber::Kind::kInvalid};
  const bool negative = text.front() == '-';
  if (negative) text.remove_prefix(1);
  Parts parts;
  bool is_fraction = false, is_integer = true;
  size_t at = 0;
  for (; at < text.size() && text[at] != 'e' && text[at] != 'E'; ++at) {
    if (text[at] == '.') {
      is_fraction = true;
      parts.full = false;  // digits behind the point are tried again, even if some before it were left out
    } else {
      parts.add(text[at], is_fraction);
    }
    is_integer = is_integer && !is_fraction && !parts.full;
  }
  if (at < text.size()) {
    is_integer = false;
    const bool is_negative = text[at + 1] == '-';
    int64_t exponent = 0;
    for (at += is_negative || text[at + 1] == '+' ? 2 : 1; at < text.size(); ++at)
      exponent = std::min<int64_t>(exponent * 10 + (text[at] - '0'), int64_t{1} << 40);
    parts.exponent += is_negative ? -exponent : exponent;
  }
  if (is_integer && !negative)
    return {JsonNumber::Kind::kInteger, parts.digits, static_cast<double>(parts.digits)};
  return scaled(parts, negative);
}

}  // namespace krill::tokenizer
