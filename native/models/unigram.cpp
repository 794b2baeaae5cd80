#include "models/unigram.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <utility>

#include "growing_buffer.hpp"
#include "models/characters.hpp"

namespace krill::models {

namespace {

constexpr double kUnset = -std::numeric_limits<double>::infinity();
constexpr double kUnknownPenalty = 10.0;
// Sums of as many scores as a text has bytes stay finite.
constexpr double kLargestScore = 1e290;
// Above all pieces; the length of an unknown character stands below it.
constexpr uint32_t kUnknownPiece = 0xfffffff0;
static_assert(ByteTrie::kMostTokens < kUnknownPiece);

}  // namespace

// The best way to each place of a word: its last piece, and for places that are still ahead its sum.
class Unigram::Scratch final : public tokenizer::ModelScratch {
 public:
  // For a word of `size` bytes and pieces of up to `longest`.
  void prepare(size_t size, size_t longest) {
    const size_t ring = std::bit_ceil(std::min(std::max<size_t>(longest, 4), size) + 1);
    mask_ = ring - 1;
    if (sums_.size() < ring) sums_.resize(ring, kUnset);
  }

  // Makes room for the pieces that end up to `last` bytes behind the stretch's begin.
  void reserve(size_t last) {
    if (last < pieces_.size()) return;
    pieces_.room(last + 1 - pieces_.size());
    pieces_.set_end(pieces_.data() + last + 1);
  }

  // For places behind the begin of a stretch.
  struct View {
    double* sums;
    size_t mask;
    uint32_t* pieces;
    size_t begin;

    double& sum(size_t place) const { return sums[place & mask]; }
    uint32_t& piece(size_t place) const { return pieces[place - begin]; }
  };
  View view(size_t begin) { return {sums_.data(), mask_, pieces_.data(), begin}; }

  double& sum(size_t place) { return sums_[place & mask_]; }
  uint32_t& piece(size_t place) { return pieces_[place]; }

  // All sums unset, as the next word expects them.
  void reset() { std::ranges::fill(sums_, kUnset); }

 private:
  size_t mask_ = 0;
  std::vector<double> sums_;        // by place, in turn; unset but for places ahead
  GrowingBuffer<uint32_t> pieces_;  // by place in the stretch
};

class Unigram::Output {
 public:
  Output(uint32_t* ids, uint32_t* lengths) : ids_(ids), lengths_(lengths) {}

  void write(uint32_t id, size_t length) {
    if (lengths_ != nullptr) lengths_[count_] = static_cast<uint32_t>(length);
    ids_[count_++] = id;
  }
  size_t count() const { return count_; }

  // A run of unknown characters that may go on: where it began.
  std::optional<size_t> unknown_begin;

 private:
  uint32_t* ids_;
  uint32_t* lengths_;
  size_t count_ = 0;
};

Unigram::Unigram(const TokenArrays& pieces, std::span<const double> scores, const UnigramOptions& options)
    : trie_(pieces), options_(options) {
  expect(scores.size() == pieces.size(), "there must be one score for each piece");
  expect(!options.unknown || *options.unknown < pieces.size(),
         "the unknown token (unk_id) is not in the vocabulary");
  expect(!options.byte_fallback || !options.bytes_are_characters, "byte fallback can't work on single bytes");
  double lowest = std::numeric_limits<double>::infinity();
  scores_.reserve(pieces.size() + 1);
  scores_.push_back(kUnset);
  lengths_.reserve(pieces.size() + 1);
  lengths_.push_back(0);
  for (size_t piece = 0; piece < pieces.size(); ++piece) {
    expect(std::abs(scores[piece]) <= kLargestScore, "a score is too large, or not a number");
    lowest = std::min(lowest, scores[piece]);
    scores_.push_back(scores[piece]);
    lengths_.push_back(static_cast<uint32_t>(pieces.length(piece)));
    longest_ = std::max(longest_, pieces.length(piece));
  }
  unknown_score_ = lowest - kUnknownPenalty;
  collect_byte_tokens();
}

void Unigram::collect_byte_tokens() {
  byte_tokens_.fill(kNoToken);
  if (!options_.byte_fallback) return;
  for (unsigned byte = 0; byte < 256; ++byte) {
    char name[8];
    std::snprintf(name, sizeof name, "<0x%02X>", byte);
    byte_tokens_[byte] = trie_.find({reinterpret_cast<const uint8_t*>(name), 6});
  }
}

std::unique_ptr<tokenizer::ModelScratch> Unigram::make_scratch() const { return std::make_unique<Scratch>(); }

size_t Unigram::encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                       tokenizer::ModelScratch& model_scratch) const {
  auto& scratch = static_cast<Scratch&>(model_scratch);
  scratch.prepare(size, longest_);
  Output output(ids, lengths);
  size_t begin = 0;  // of the stretch whose best way is still open
  size_t reach = 0;  // where the longest of its pieces ends
  scratch.sum(0) = 0.0;
  for (size_t at = 0; at < size;) {
    if (at == reach && at != begin) {
      // No piece goes beyond this place, so every way leads over it.
      write_stretch(word, begin, at, scratch, output);
      begin = at;
    }
    scratch.reserve(at - begin + std::max<size_t>(longest_, 4));
    const size_t next = at + (options_.bytes_are_characters ? 1 : character_length(word[at], size - at));
    reach = std::max(reach, add_candidates(word, size, begin, at, next, scratch));
    at = next;
  }
  write_stretch(word, begin, size, scratch, output);
  if (output.unknown_begin) write_unknown(word, *output.unknown_begin, size, output);
  scratch.sum(size) = kUnset;
  return output.count();
}

// Tries all pieces that begin at a place, with a character that ends at `next`; returns where the longest of
// them ends.
inline size_t Unigram::add_candidates(const uint8_t* word, size_t size, size_t begin, size_t at, size_t next,
                                      Scratch& scratch) const {
  const Scratch::View view = scratch.view(begin);
  const double here = view.sum(at);
  // Inside of the character pieces end only if the text is not UTF-8.
  for (size_t place = at; place < next; ++place) view.sum(place) = kUnset;
  const auto offer = [&](size_t end, double sum, uint32_t piece) {
    if (sum > view.sum(end)) {
      view.sum(end) = sum;
      view.piece(end) = piece;
    }
  };
  ByteTrie::State state = trie_.root();
  size_t end = at;
  while (end < next && trie_.step(state, word[end])) ++end;
  const uint32_t single = end < next ? 0 : ByteTrie::token(state) + 1;
  if (single != 0) {
    offer(next, scores_[single] + here, single);
  } else {
    offer(next, unknown_score_ + here, kUnknownPiece + static_cast<uint32_t>(next - at));
    if (!options_.unknown && view.piece(next) > kUnknownPiece) {
      scratch.reset();
      throw std::runtime_error("a character has no piece, and there is no unknown token (unk_id)");
    }
    if (end < next) return next;
  }
  size_t reach = next;
  for (; end < size && trie_.step(state, word[end]);) {
    ++end;
    if (const uint32_t piece = ByteTrie::token(state) + 1; piece != 0) {
      offer(end, scores_[piece] + here, piece);
      reach = end;
    }
  }
  return reach;
}

// Writes the best way from `begin` to `end`, but for unknown characters before `end`, which may go on.
void Unigram::write_stretch(const uint8_t* word, size_t begin, size_t end, Scratch& scratch,
                            Output& output) const {
  const auto length_of = [&](uint32_t piece) {
    return piece > kUnknownPiece ? piece - kUnknownPiece : lengths_[piece];
  };
  // Turns the way around: afterwards each place on it has the piece that begins there.
  uint32_t piece = scratch.piece(end - begin);
  for (size_t place = end - begin; place > 0;) {
    place -= length_of(piece);
    std::swap(piece, scratch.piece(place));
  }
  for (size_t place = begin; place < end;) {
    const uint32_t next = scratch.piece(place - begin);
    if (next > kUnknownPiece || next - 1 == options_.unknown) {
      if (!output.unknown_begin) output.unknown_begin = place;
    } else {
      if (output.unknown_begin) write_unknown(word, *output.unknown_begin, place, output);
      output.unknown_begin.reset();
      output.write(next - 1, lengths_[next]);
    }
    place += length_of(next);
  }
}

void Unigram::write_unknown(const uint8_t* word, size_t begin, size_t end, Output& output) const {
  const std::span<const uint8_t> text(word + begin, end - begin);
  if (const uint32_t piece = trie_.find(text); piece != kNoToken) return output.write(piece, text.size());
  const auto has_token = [&](uint8_t byte) { return byte_tokens_[byte] != kNoToken; };
  if (!options_.byte_fallback || !std::ranges::all_of(text, has_token))
    return output.write(*options_.unknown, text.size());
  for (size_t i = 0; i < text.size(); ++i) output.write(byte_tokens_[text[i]], i == 0 ? text.size() : 0);
}

}  // namespace krill::models
