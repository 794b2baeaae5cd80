#include "corpus/json_reader.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace krill::corpus {

namespace {

size_t longest_key(const JsonOptions& options) {
  size_t longest = options.text_key.size();
  for (const Bytes& key : options.carry) longest = std::max(longest, key.size());
  return longest;
}

}  // namespace

JsonReader::JsonReader(JsonOptions options)
    : options_(std::move(options)),
      text_(options_.max_document_bytes, options_.drop_oversize),
      key_(longest_key(options_)),
      state_(options_.array ? State::kBeforeArray : State::kLineStart) {
  if (options_.whole && !options_.drop_oversize) throw std::invalid_argument("a whole record can't be split");
  if (!options_.whole) slots_.add(options_.text_key, kTextSlot);
  for (const Bytes& key : options_.carry) {
    slots_.add(key, carried_.size());
    carried_.emplace_back(options_.max_document_bytes);
  }
}

void JsonReader::feed(const uint8_t* data, size_t size, uint64_t offset) {
  stream_.feed(data, size, offset, [this](auto... bytes) { consume(bytes...); });
}

void JsonReader::finish() {
  stream_.finish([this](auto... bytes) { consume(bytes...); });
  if (state_ == State::kAfterArray) return;
  if (state_ == State::kLineEnd) {
    finish_record();
  } else if (options_.array && complete()) {
    record_start_ = stream_.end();
    fail_at(record_start_, state_ == State::kBeforeArray ? "expected an array" : "the array is cut off");
  } else if (state_ != State::kLineStart && state_ != State::kSkipLine) {
    fail_at(stream_.end(), "the record is cut off");
  }
  state_ = State::kLineStart;
}

DocumentBatch JsonReader::take() {
  std::vector<Rows> carried;
  for (CarriedValue& value : carried_) {
    value.catch_up(text_.rows());
    carried.push_back(value.take());
  }
  return {text_.take_rows(), text_.take_starts(), std::move(carried), std::exchange(counts_, {})};
}

size_t JsonReader::pending_bytes() const {
  size_t bytes = text_.bytes();
  for (const CarriedValue& value : carried_) bytes += value.bytes();
  return bytes;
}

void JsonReader::consume(const uint8_t* data, size_t size, uint64_t offset) {
  chunk_ = capture_from_ = record_from_ = data;
  chunk_offset_ = offset;
  const Cursor end = data + size;
  Cursor p = data;
  while (p != end) p = step(p, end);
  if (capturing_ && !capture_until(end)) fail_carried(end);
  if (recording_) record_until(end);
}

JsonReader::Cursor JsonReader::step(Cursor p, Cursor end) {
  switch (state_) {
    case State::kLineStart:
    case State::kBeforeArray:
    case State::kFirstElement:
    case State::kNextElement:
    case State::kAfterElement:
    case State::kAfterArray: return between_records(p);
    case State::kFirstKey:
    case State::kKey: return key(p);
    case State::kColon: return colon(p);
    case State::kFirstItem:
    case State::kValue: return value(p);
    case State::kAfterValue: return after_value(p);
    case State::kString: return string(p, end);
    case State::kEscape: return escape(p);
    case State::kHex: return hex(p);
    case State::kAfterHigh: return after_high(p);
    case State::kEscapeAfterHigh: return escape_after_high(p);
    case State::kNumber: return number(p, end);
    case State::kLiteral: return literal(p);
    case State::kLineEnd: return line_end(p);
    case State::kSkipLine: return skip_line(p, end);
  }
  return end;
}

JsonReader::Cursor JsonReader::between_records(Cursor p) {
  const uint8_t c = *p;
  if (is_space(c) || c == '\n') return p + 1;
  const bool object_may_begin =
      state_ == State::kLineStart || state_ == State::kFirstElement || state_ == State::kNextElement;
  if (c == '{' && object_may_begin) {
    begin_record(p);
    return open_container(p, true);
  }
  if (c == '[' && state_ == State::kBeforeArray) {
    state_ = State::kFirstElement;
    return p + 1;
  }
  if (c == ']' && (state_ == State::kFirstElement || state_ == State::kAfterElement)) {
    state_ = State::kAfterArray;
    return p + 1;
  }
  if (c == ',' && state_ == State::kAfterElement) {
    state_ = State::kNextElement;
    return p + 1;
  }
  record_start_ = offset_of(p);
  if (object_may_begin) return fail(p, "expected an object");
  if (state_ == State::kBeforeArray) return fail(p, "expected an array");
  return fail(p, state_ == State::kAfterArray ? "unexpected bytes behind the array" : "expected `,` or `]`");
}

void JsonReader::begin_record(Cursor p) {
  record_start_ = offset_of(p);
  text_.begin_record(record_start_);
  recording_ = key_seen_ = options_.whole;
  record_from_ = p;
  found_ = options_.whole ? Found::kText : Found::kNoText;
  depth_ = 0;
}

void JsonReader::record_until(Cursor p) {
  text_.append(record_from_, static_cast<size_t>(p - record_from_), offset_of(record_from_));
  record_from_ = p;
}

void JsonReader::finish_record() {
  ++counts_.records;
  counts_.key_seen += key_seen_;
  const bool is_text = found_ == Found::kText;
  if (is_text && text_.dropped()) {
    ++counts_.oversize;
    for (CarriedValue& value : carried_) value.clear();
    return;
  }
  for (CarriedValue& value : carried_) {
    value.catch_up(text_.rows());
    value.finish_row();
  }
  if (is_text) {
    counts_.oversize_split += text_.split();
    counts_.surrogates_removed += text_.surrogates_removed();
    text_.finish_document();
  } else {
    ++counts_.not_text;
    text_.finish_null();
  }
}

JsonReader::Cursor JsonReader::line_end(Cursor p) {
  if (is_space(*p)) return p + 1;
  if (*p != '\n') return fail(p, "unexpected bytes behind the object");
  finish_record();
  state_ = State::kLineStart;
  return p + 1;
}

JsonReader::Cursor JsonReader::skip_line(Cursor p, Cursor end) {
  const void* newline = std::memchr(p, '\n', static_cast<size_t>(end - p));
  if (newline == nullptr) return end;
  state_ = State::kLineStart;
  return static_cast<Cursor>(newline) + 1;
}

JsonReader::Cursor JsonReader::fail(Cursor p, std::string_view reason) {
  // The order of faults must not depend on how feeds are cut, so what was captured is checked first.
  if (capturing_ && !capture_until(p)) return fail_carried(p);
  const bool line_ended = !options_.array && *p == '\n';
  fail_at(offset_of(p), line_ended ? "the record is cut off" : reason);
  return p;
}

JsonReader::Cursor JsonReader::fail_carried(Cursor p) {
  fail_at(value_start_, "a carried column is longer than max_document_bytes");
  return p;
}

void JsonReader::fail_at(uint64_t at, std::string_view reason) {
  if (!options_.skip_malformed || options_.array)
    throw MalformedRecord{record_start_, at, std::string(reason)};
  ++counts_.records;
  ++counts_.malformed;
  capturing_ = recording_ = false;
  high_ = 0;
  text_.discard_open();
  for (CarriedValue& value : carried_) value.clear();
  state_ = State::kSkipLine;
}

JsonReader::Cursor JsonReader::key(Cursor p) {
  if (is_space(*p)) return p + 1;
  if (*p == '"') {
    begin_string(true);
    return p + 1;
  }
  if (*p == '}' && state_ == State::kFirstKey) return close_container(p);
  return fail(p, "expected a key");
}

void JsonReader::find_slot() {
  slot_ = key_.possible() ? slots_.find(key_.bytes()) : kNoSlot;
  key_seen_ |= slot_ == kTextSlot;
}

JsonReader::Cursor JsonReader::colon(Cursor p) {
  if (is_space(*p)) return p + 1;
  if (*p != ':') return fail(p, "expected `:`");
  state_ = State::kValue;
  return p + 1;
}

JsonReader::Cursor JsonReader::value(Cursor p) {
  const uint8_t c = *p;
  if (is_space(c)) return p + 1;
  if (c == ']' && state_ == State::kFirstItem) return close_container(p);
  if (depth_ == 1 && slot_ != kNoSlot) begin_wanted_value(p);
  switch (c) {
    case '"': begin_string(false); return p + 1;
    case '{':
    case '[': return open_container(p, c == '{');
    case 't': literal_ = "rue"; break;
    case 'f': literal_ = "alse"; break;
    case 'n': literal_ = "ull"; break;
    default:
      number_ = begin_number(c);
      if (number_ == Number::kInvalid) return fail(p, "expected a value");
      state_ = State::kNumber;
      return p + 1;
  }
  state_ = State::kLiteral;
  // A carried null is no value.
  if (c == 'n' && depth_ == 1 && capturing_) {
    capturing_ = false;
    carried_[slot_].clear();
  }
  return p + 1;
}

void JsonReader::begin_wanted_value(Cursor p) {
  const bool is_string = *p == '"';
  if (slot_ == kTextSlot) {
    if (text_.split()) {
      slot_ = kNoSlot;  // an earlier text is partly out already: it stays
      return;
    }
    text_.begin_string();
    found_ = is_string ? Found::kText : Found::kNoText;
    return;
  }
  carried_[slot_].begin();
  value_start_ = offset_of(p);
  capturing_ = !is_string;
  capture_from_ = p;
}

JsonReader::Cursor JsonReader::end_value(Cursor p) {
  state_ = State::kAfterValue;
  if (capturing_ && depth_ == 1) {
    if (!capture_until(p)) return fail_carried(p);
    capturing_ = false;
  }
  return p;
}

bool JsonReader::capture_until(Cursor p) {
  const size_t size = static_cast<size_t>(p - capture_from_);
  const bool fits = carried_[slot_].append(capture_from_, size, 0);
  capture_from_ = p;
  return fits;
}

JsonReader::Cursor JsonReader::after_value(Cursor p) {
  const uint8_t c = *p;
  if (is_space(c)) return p + 1;
  const bool object = is_object_[depth_ - 1];
  if (c == (object ? '}' : ']')) return close_container(p);
  if (c != ',') return fail(p, object ? "expected `,` or `}`" : "expected `,` or `]`");
  state_ = object ? State::kKey : State::kValue;
  return p + 1;
}

JsonReader::Cursor JsonReader::open_container(Cursor p, bool object) {
  if (depth_ == kMaxDepth) return fail(p, "nested deeper than 512 levels");
  is_object_[depth_++] = object;
  state_ = object ? State::kFirstKey : State::kFirstItem;
  return p + 1;
}

JsonReader::Cursor JsonReader::close_container(Cursor p) {
  if (--depth_ > 0) return end_value(p + 1);
  if (recording_) record_until(p + 1);
  recording_ = false;
  if (options_.array) {
    finish_record();
    state_ = State::kAfterElement;
  } else {
    state_ = State::kLineEnd;
  }
  return p + 1;
}

JsonReader::Cursor JsonReader::number(Cursor p, Cursor end) {
  for (; p != end; ++p) {
    const Number next = continue_number(number_, *p);
    if (next == Number::kInvalid) return is_whole(number_) ? end_value(p) : fail(p, "invalid number");
    number_ = next;
  }
  return p;
}

JsonReader::Cursor JsonReader::literal(Cursor p) {
  if (*p != static_cast<uint8_t>(*literal_)) return fail(p, "expected a value");
  return *++literal_ == '\0' ? end_value(p + 1) : p + 1;
}

}  // namespace krill::corpus
