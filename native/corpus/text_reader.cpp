#include "corpus/text_reader.hpp"

#include <algorithm>
#include <utility>

#include "corpus/oversize.hpp"
#include "text/byte_scan.hpp"

namespace krill::corpus {

namespace {

// For each prefix of `word` (by length): the length of its longest proper prefix that is also its suffix.
std::vector<size_t> prefix_borders(const std::vector<uint8_t>& word) {
  std::vector<size_t> borders(word.size() + 1, 0);
  size_t border = 0;
  for (size_t i = 1; i < word.size(); ++i) {
    while (border > 0 && word[i] != word[border]) border = borders[border];
    if (word[i] == word[border]) ++border;
    borders[i + 1] = border;
  }
  return borders;
}

}  // namespace

TextReader::TextReader(TextOptions options)
    : options_(std::move(options)), fallback_(prefix_borders(options_.separator)) {
  checked_document_limit(options_.max_document_bytes);
}

void TextReader::feed(const uint8_t* data, size_t size, uint64_t offset) {
  stream_.feed(data, size, offset, [this](auto... bytes) { consume(bytes...); });
}

void TextReader::finish() {
  stream_.finish([this](auto... bytes) { consume(bytes...); });
  const size_t held = std::exchange(matched_, 0);
  gather(options_.separator.data(), held, stream_.end() - held);
  end_document();
}

DocumentBatch TextReader::take() {
  starts_.shrink_to_fit();
  return {text_.take(), std::exchange(starts_, {}), {}, std::exchange(counts_, {})};
}

void TextReader::consume(const uint8_t* data, size_t size, uint64_t offset) {
  const std::vector<uint8_t>& separator = options_.separator;
  if (separator.empty()) return gather(data, size, offset);
  const uint8_t* const end = data + size;
  const uint8_t* p = data + continue_separator(data, size, offset);
  while (p != end) {
    const uint64_t at = offset + static_cast<uint64_t>(p - data);
    const uint8_t* found = text::find_bytes(p, end, separator.data(), separator.size());
    if (found == end) {
      matched_ = longest_prefix_at_end(p, static_cast<size_t>(end - p));
      return gather(p, static_cast<size_t>(end - p) - matched_, at);
    }
    gather(p, static_cast<size_t>(found - p), at);
    end_document();
    p = found + separator.size();
  }
}

// Decides what the previous feed held back; returns how many bytes of this one that took.
size_t TextReader::continue_separator(const uint8_t* data, size_t size, uint64_t offset) {
  const std::vector<uint8_t>& separator = options_.separator;
  size_t used = 0;
  while (matched_ > 0 && used < size) {
    if (data[used] == separator[matched_]) {
      ++used;
      if (++matched_ == separator.size()) {
        matched_ = 0;
        end_document();
      }
      continue;
    }
    const size_t shorter = fallback_[matched_];
    gather(separator.data(), matched_ - shorter, offset + used - matched_);
    matched_ = shorter;
  }
  return used;
}

// How many bytes at the end may be the beginning of a separator.
size_t TextReader::longest_prefix_at_end(const uint8_t* data, size_t size) const {
  const std::vector<uint8_t>& separator = options_.separator;
  const size_t tail = std::min(size, separator.size() - 1);
  size_t matched = 0;
  for (const uint8_t* p = data + size - tail; p != data + size; ++p) {
    while (matched > 0 && *p != separator[matched]) matched = fallback_[matched];
    if (*p == separator[matched]) ++matched;
  }
  return matched;
}

void TextReader::gather(const uint8_t* data, size_t size, uint64_t offset) {
  if (size == 0) return;
  if (!open_) {
    open_ = true;
    piece_start_ = offset;
  }
  const size_t limit = options_.max_document_bytes;
  while (size > 0 && !dropped_) {
    // One byte more than the limit tells whether the piece has to be cut, and before which character.
    const size_t room = limit - text_.open_size() + 1;
    const size_t part = std::min(size, room);
    text_.append(data, part);
    data += part;
    size -= part;
    if (text_.open_size() > limit) cut_oversize();
  }
}

void TextReader::cut_oversize() {
  if (options_.drop_oversize) {
    text_.discard_open();
    dropped_ = true;
    return;
  }
  const size_t piece = first_piece(text_.open_data(), options_.max_document_bytes);
  text_.finish_row(piece);
  starts_.push_back(piece_start_);
  piece_start_ += piece;
  split_ = true;
}

void TextReader::end_document() {
  if (!open_) return;
  ++counts_.records;
  ++counts_.key_seen;  // text has no keys: nothing is missing
  if (dropped_) {
    ++counts_.oversize;
  } else {
    text_.finish_row(text_.open_size());
    starts_.push_back(piece_start_);
  }
  if (split_) ++counts_.oversize_split;
  open_ = split_ = dropped_ = false;
}

}  // namespace krill::corpus
