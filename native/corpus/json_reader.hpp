// Push parser of JSON records: bytes of one file in, one text of each record out.
//
// Records are JSON Lines (one object a line; blank lines are ignored) or the objects of one top-level array.
// The grammar is RFC 8259, strictly, at most 512 containers deep; bytes inside strings are copied verbatim,
// escapes become UTF-8, lone surrogates are left out. Feeds may cut anywhere.
//
// - The text is the string at `text_key` in the record's top level; the last of equal keys counts, unless
//   pieces of an earlier one have been emitted. Without such a string the record gives a null row.
// - With `whole` the text is the record itself, verbatim from its `{` to its `}`.
// - A row's start is the offset of the record's `{`. Later pieces of a split document (oversize.hpp) start
//   at their first character, or at its escape.
// - Carried columns are null on all pieces of a split document but the last, since their values may come
//   later.
// - Faults throw MalformedRecord; with skip_malformed a faulty line is counted and left out, except for
//   pieces emitted before the fault was reached. Faults of an array always throw.
//
// Held in memory: the rows gathered since the last take(), the open text of at most max_document_bytes + 1,
// and the open carried values, each at most max_document_bytes (longer ones are a fault). Nothing else grows
// with the input.
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "corpus/document_batch.hpp"
#include "corpus/input_stream.hpp"
#include "corpus/json_grammar.hpp"
#include "corpus/json_strings.hpp"
#include "corpus/key_slots.hpp"
#include "corpus/text_value.hpp"

namespace krill::corpus {

struct JsonOptions {
  Bytes text_key;
  std::vector<Bytes> carry;  // keys; no two the same, none the text's
  size_t max_document_bytes;
  bool drop_oversize;
  bool skip_malformed;
  bool array;
  bool whole = false;  // `text_key` is not looked at; a record above the limit must be dropped
};

class JsonReader {
 public:
  explicit JsonReader(JsonOptions options);

  // Another file follows the one that was finished; its offsets begin at `base`. Rows are gathered on.
  void begin_file(uint64_t base) { stream_ = InputStream(base); }
  // The next bytes of the file; `offset` is the position of the first one and continues the previous feed.
  void feed(const uint8_t* data, size_t size, uint64_t offset);
  // The end of the file: the last line may lack its newline, but a record must not be cut off.
  void finish();
  // The rows of all whole records, and the split pieces of the open one; the open one stays.
  DocumentBatch take();

  const Counts& counts() const { return counts_; }  // since the last take()
  // Bytes of texts and carried values, the open ones included.
  size_t pending_bytes() const;
  // Between records: at the beginning of a line, or outside the array's elements.
  bool complete() const { return state_ <= State::kAfterArray && !stream_.holds_bytes(); }

 private:
  enum class State : uint8_t {
    // Between records.
    kLineStart,
    kBeforeArray,
    kFirstElement,
    kNextElement,
    kAfterElement,
    kAfterArray,
    // Inside a record.
    kFirstKey,
    kKey,
    kColon,
    kFirstItem,
    kValue,
    kAfterValue,
    kString,
    kEscape,
    kHex,
    kAfterHigh,        // behind the escape of a high surrogate
    kEscapeAfterHigh,  // and behind one more backslash
    kNumber,
    kLiteral,
    kLineEnd,   // the object is closed, the line is not
    kSkipLine,  // behind a fault
  };
  enum class StringRole : uint8_t { kKey, kText, kCarried, kIgnored };
  enum class Found : uint8_t { kNoText, kText };
  using Cursor = const uint8_t*;

  // Each step takes the bytes at p that it understands in this state and returns what is left to read.
  void consume(const uint8_t* data, size_t size, uint64_t offset);
  Cursor step(Cursor p, Cursor end);
  Cursor between_records(Cursor p);
  Cursor key(Cursor p);
  Cursor colon(Cursor p);
  Cursor value(Cursor p);
  Cursor after_value(Cursor p);
  Cursor number(Cursor p, Cursor end);
  Cursor literal(Cursor p);
  Cursor line_end(Cursor p);
  Cursor skip_line(Cursor p, Cursor end);

  Cursor string(Cursor p, Cursor end);
  template <class Sink>
  Cursor string_into(Sink& sink, Cursor p, Cursor end);
  template <class Use>
  auto with_sink(Use&& use);
  Cursor escape(Cursor p);
  Cursor hex(Cursor p);
  Cursor unicode_escape(Cursor p);
  Cursor after_high(Cursor p);
  Cursor escape_after_high(Cursor p);
  void drop_high_surrogate();
  Cursor end_string(Cursor p);

  Cursor open_container(Cursor p, bool object);
  Cursor close_container(Cursor p);
  void begin_string(bool key);
  void begin_wanted_value(Cursor p);
  Cursor end_value(Cursor p);
  void find_slot();
  bool capture_until(Cursor p);

  void begin_record(Cursor p);
  void record_until(Cursor p);
  void finish_record();
  Cursor fail(Cursor p, std::string_view reason);
  Cursor fail_carried(Cursor p);
  void fail_at(uint64_t at, std::string_view reason);

  bool is_space(uint8_t c) const {
    return c == ' ' || c == '\t' || c == '\r' || (c == '\n' && options_.array);
  }
  uint64_t offset_of(Cursor p) const { return chunk_offset_ + static_cast<uint64_t>(p - chunk_); }

  static constexpr size_t kMaxDepth = 512;
  static constexpr size_t kNoSlot = KeySlots::kNone;
  static constexpr size_t kTextSlot = static_cast<size_t>(-2);

  const JsonOptions options_;
  InputStream stream_;
  TextValue text_;
  std::vector<CarriedValue> carried_;
  KeySlots slots_;
  KeyString key_;
  IgnoredString ignored_;
  Counts counts_;

  Cursor chunk_ = nullptr;  // what is being fed, and where it stands in the file
  uint64_t chunk_offset_ = 0;

  State state_;
  size_t depth_ = 0;  // open containers of the record
  std::bitset<kMaxDepth> is_object_;
  uint64_t record_start_ = 0;
  uint64_t value_start_ = 0;  // of the carried value
  size_t slot_ = kNoSlot;     // where the top-level value goes: the text, a carried column, nowhere
  bool key_seen_ = false;
  Found found_ = Found::kNoText;

  StringRole role_ = StringRole::kIgnored;
  bool string_is_key_ = false;
  uint64_t escape_start_ = 0;
  uint32_t hex_value_ = 0;
  int hex_digits_ = 0;
  uint32_t high_ = 0;  // a high surrogate that waits for its low one
  uint64_t high_start_ = 0;

  Number number_ = Number::kInvalid;
  const char* literal_ = "";  // what must still come

  bool capturing_ = false;  // a carried value that is no string is copied verbatim, from here
  Cursor capture_from_ = nullptr;

  bool recording_ = false;  // inside a record that is wanted whole, from here
  Cursor record_from_ = nullptr;
};

}  // namespace krill::corpus
