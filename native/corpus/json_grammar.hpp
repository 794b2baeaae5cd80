// The parts of RFC 8259 that need no memory: numbers byte by byte, escapes, UTF-16 surrogates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace krill::corpus {

enum class Number : uint8_t {
  kMinus,
  kZero,  // a leading zero: no digit may follow
  kInteger,
  kPoint,
  kFraction,
  kExponent,
  kExponentSign,
  kExponentDigits,
  kInvalid,
};

inline bool is_digit(uint8_t c) { return c >= '0' && c <= '9'; }

inline Number begin_number(uint8_t c) {
  if (c == '-') return Number::kMinus;
  if (c == '0') return Number::kZero;
  return is_digit(c) ? Number::kInteger : Number::kInvalid;
}

inline Number continue_number(Number number, uint8_t c) {
  const bool exponent = c == 'e' || c == 'E';
  switch (number) {
    case Number::kMinus: return c == '-' ? Number::kInvalid : begin_number(c);
    case Number::kZero: return c == '.' ? Number::kPoint : exponent ? Number::kExponent : Number::kInvalid;
    case Number::kInteger: return is_digit(c) ? number : continue_number(Number::kZero, c);
    case Number::kPoint: return is_digit(c) ? Number::kFraction : Number::kInvalid;
    case Number::kFraction: return is_digit(c) ? number : exponent ? Number::kExponent : Number::kInvalid;
    case Number::kExponent:
      if (c == '+' || c == '-') return Number::kExponentSign;
      [[fallthrough]];
    case Number::kExponentSign:
    case Number::kExponentDigits: return is_digit(c) ? Number::kExponentDigits : Number::kInvalid;
    case Number::kInvalid: break;
  }
  return Number::kInvalid;
}

inline bool is_whole(Number number) {
  return number == Number::kZero || number == Number::kInteger || number == Number::kFraction ||
         number == Number::kExponentDigits;
}

// The character that a backslash and a letter stand for; 0 for `u` and for invalid escapes.
inline constexpr std::array<uint8_t, 256> kUnescaped = [] {
  std::array<uint8_t, 256> table{};
  table['"'] = '"';
  table['\\'] = '\\';
  table['/'] = '/';
  table['b'] = '\b';
  table['f'] = '\f';
  table['n'] = '\n';
  table['r'] = '\r';
  table['t'] = '\t';
  return table;
}();

// The value of a hexadecimal digit, or -1.
inline int hex_digit(uint8_t c) {
  if (is_digit(c)) return c - '0';
  const uint8_t lower = c | 0x20;
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

inline bool is_high_surrogate(uint32_t code) { return code >= 0xD800 && code <= 0xDBFF; }
inline bool is_low_surrogate(uint32_t code) { return code >= 0xDC00 && code <= 0xDFFF; }
inline uint32_t join_surrogates(uint32_t high, uint32_t low) {
  return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
}

struct Utf8Character {
  std::array<uint8_t, 4> bytes;
  size_t size;
};

inline Utf8Character to_utf8(uint32_t code) {
  const auto lead = [&](uint32_t mark, int shift) { return static_cast<uint8_t>(mark | (code >> shift)); };
  const auto tail = [&](int shift) { return static_cast<uint8_t>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) return {{lead(0, 0)}, 1};
  if (code < 0x800) return {{lead(0xC0, 6), tail(0)}, 2};
  if (code < 0x10000) return {{lead(0xE0, 12), tail(6), tail(0)}, 3};
  return {{lead(0xF0, 18), tail(12), tail(6), tail(0)}, 4};
}

}  // namespace krill::corpus
