#include "dedup/pieces.hpp"

#include <cstring>
#include <stdexcept>

#include "text/utf8.hpp"

namespace krill::dedup {
namespace {

struct Span {
  const uint8_t* begin;
  const uint8_t* end;

  size_t size() const { return static_cast<size_t>(end - begin); }
};

Span stripped(Span span) {
  span.begin += text::leading_whitespace(span.begin, span.size()).bytes;
  span.end -= text::trailing_whitespace(span.begin, span.size()).bytes;
  return span;
}

Span next_line(const uint8_t* at, const uint8_t* end) {
  const void* found = std::memchr(at, '\n', static_cast<size_t>(end - at));
  return {at, found == nullptr ? end : static_cast<const uint8_t*>(found) + 1};
}

bool blank(Span span) { return stripped(span).size() == 0; }

// Calls visit(span, is_piece) for all parts of a text, in order; they cover it.
template <class Visit>
void each_line(Span text, const Visit& visit) {
  for (const uint8_t* at = text.begin; at != text.end;) {
    const Span line = next_line(at, text.end);
    visit(line, !blank(line));
    at = line.end;
  }
}

template <class Visit>
void each_paragraph(Span text, const Visit& visit) {
  const uint8_t* begin = text.begin;
  bool words = false;  // whether the open part has a line that is not blank
  bool ended = false;  // and a blank one after it
  for (const uint8_t* at = text.begin; at != text.end;) {
    const Span line = next_line(at, text.end);
    if (blank(line)) {
      ended = words;
    } else {
      if (ended || (!words && begin != at)) {
        visit(Span{begin, at}, words);
        begin = at;
      }
      words = true;
      ended = false;
    }
    at = line.end;
  }
  if (begin != text.end) visit(Span{begin, text.end}, words);
}

template <class Visit>
void each_piece(Span text, Level level, const Visit& visit) {
  if (level == Level::line) {
    each_line(text, visit);
  } else {
    each_paragraph(text, visit);
  }
}

Span text_of(const text::TextColumn& documents, size_t row) {
  return {documents.begin(row), documents.begin(row) + documents.size(row)};
}

}  // namespace

// A piece takes a byte, and the end of its line another.
PieceHashes piece_hashes(const text::TextColumn& documents, Level level) {
  PieceHashes result{Buffer<Hash>(documents.total() / 2 + documents.rows), Buffer<uint32_t>(documents.rows)};
  size_t pieces = 0;
  for (size_t row = 0; row < documents.rows; ++row) {
    const size_t before = pieces;
    each_piece(text_of(documents, row), level, [&](Span span, bool is_piece) {
      if (!is_piece) return;
      const Span words = stripped(span);
      result.hashes[pieces++] = hash_bytes(words.begin, words.size(), 0);
    });
    result.counts[row] = static_cast<uint32_t>(pieces - before);
  }
  result.hashes.trim(pieces);
  return result;
}

KeptPieces keep_pieces(const text::TextColumn& documents, Level level, const uint8_t* flags,
                       size_t flag_count) {
  KeptPieces kept{Buffer<int64_t>(documents.rows + 1), Buffer<uint8_t>(documents.total())};
  size_t written = 0;
  size_t next = 0;
  kept.offsets[0] = 0;
  for (size_t row = 0; row < documents.rows; ++row) {
    each_piece(text_of(documents, row), level, [&](Span span, bool is_piece) {
      if (is_piece && next == flag_count) throw std::invalid_argument("there are more pieces than flags");
      if (is_piece && flags[next++] == 0) return;
      std::memcpy(kept.data.data() + written, span.begin, span.size());
      written += span.size();
    });
    kept.offsets[row + 1] = static_cast<int64_t>(written);
  }
  if (next != flag_count) throw std::invalid_argument("there are fewer pieces than flags");
  kept.data.trim(written);
  return kept;
}

}  // namespace krill::dedup
