// The half of JsonReader that is inside strings, where nearly all bytes of a file are.
#include <utility>

#include "corpus/json_reader.hpp"
#include "text/byte_scan.hpp"

namespace krill::corpus {

template <class Use>
auto JsonReader::with_sink(Use&& use) {
  switch (role_) {
    case StringRole::kText: return use(text_);
    case StringRole::kKey: return use(key_);
    case StringRole::kCarried: return use(carried_[slot_]);
    case StringRole::kIgnored: break;
  }
  return use(ignored_);
}

void JsonReader::begin_string(bool key) {
  state_ = State::kString;
  string_is_key_ = key;
  role_ = StringRole::kIgnored;
  if (depth_ != 1) return;
  if (key) {
    role_ = StringRole::kKey;
    key_.begin();
  } else if (slot_ != kNoSlot) {
    role_ = slot_ == kTextSlot ? StringRole::kText : StringRole::kCarried;
  }
}

JsonReader::Cursor JsonReader::string(Cursor p, Cursor end) {
  return with_sink([&](auto& sink) { return string_into(sink, p, end); });
}

template <class Sink>
JsonReader::Cursor JsonReader::string_into(Sink& sink, Cursor p, Cursor end) {
  for (;;) {
    const Cursor stop = text::find_string_stop(p, end);
    if (stop != p && !sink.append(p, static_cast<size_t>(stop - p), offset_of(p))) return fail_carried(p);
    if (stop == end) return end;
    if (*stop == '"') return end_string(stop + 1);
    if (*stop != '\\') return fail(stop, "control character in a string");
    const uint8_t* character = end - stop > 1 ? &kUnescaped[stop[1]] : nullptr;
    if (character == nullptr || *character == 0) {
      escape_start_ = offset_of(stop);
      state_ = State::kEscape;
      return stop + 1;
    }
    p = stop + 2;
    if (!sink.append_escaped(character, 1, offset_of(stop), offset_of(p))) return fail_carried(stop);
  }
}

JsonReader::Cursor JsonReader::escape(Cursor p) {
  if (*p == 'u') {
    state_ = State::kHex;
    hex_value_ = 0;
    hex_digits_ = 0;
    return p + 1;
  }
  const uint8_t* character = &kUnescaped[*p];
  if (*character == 0) return fail(p, "invalid escape");
  state_ = State::kString;
  const uint64_t behind = offset_of(p) + 1;
  const bool fits =
      with_sink([&](auto& sink) { return sink.append_escaped(character, 1, escape_start_, behind); });
  return fits ? p + 1 : fail_carried(p);
}

JsonReader::Cursor JsonReader::hex(Cursor p) {
  const int digit = hex_digit(*p);
  if (digit < 0) return fail(p, "invalid escape");
  hex_value_ = hex_value_ << 4 | static_cast<uint32_t>(digit);
  return ++hex_digits_ == 4 ? unicode_escape(p + 1) : p + 1;
}

// Four digits are there; p is behind them.
JsonReader::Cursor JsonReader::unicode_escape(Cursor p) {
  uint32_t code = hex_value_;
  uint64_t start = escape_start_;
  if (high_ != 0 && is_low_surrogate(code)) {
    code = join_surrogates(std::exchange(high_, 0), code);
    start = high_start_;
  } else if (high_ != 0) {
    drop_high_surrogate();
  }
  state_ = State::kString;
  if (is_high_surrogate(code)) {
    high_ = code;
    high_start_ = start;
    state_ = State::kAfterHigh;
    return p;
  }
  const uint64_t behind = offset_of(p);
  if (is_low_surrogate(code)) {
    with_sink([&](auto& sink) { sink.remove_surrogate(behind); });
    return p;
  }
  const Utf8Character character = to_utf8(code);
  const bool fits = with_sink(
      [&](auto& sink) { return sink.append_escaped(character.bytes.data(), character.size, start, behind); });
  return fits ? p : fail_carried(p);
}

JsonReader::Cursor JsonReader::after_high(Cursor p) {
  if (*p == '\\') {
    escape_start_ = offset_of(p);
    state_ = State::kEscapeAfterHigh;
    return p + 1;
  }
  drop_high_surrogate();
  state_ = State::kString;
  return p;
}

JsonReader::Cursor JsonReader::escape_after_high(Cursor p) {
  if (*p != 'u') drop_high_surrogate();
  state_ = State::kEscape;
  return p;
}

void JsonReader::drop_high_surrogate() {
  constexpr uint64_t kEscapeSize = 6;
  high_ = 0;
  with_sink([&](auto& sink) { sink.remove_surrogate(high_start_ + kEscapeSize); });
}

JsonReader::Cursor JsonReader::end_string(Cursor p) {
  if (!string_is_key_) return end_value(p);
  state_ = State::kColon;
  if (depth_ == 1) find_slot();
  return p;
}

}  // namespace krill::corpus
