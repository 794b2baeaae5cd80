// A pre-tokenizer of tokenizer.json: steps that cut a text into words, and those that change it on the way.
//
// In: a text after normalisation. Out: the text as its words have it, and where these end. Held in memory:
// the steps, which are shared; for each worker the ends of some pieces, and those of a whole text if it is
// changed after it was cut.
//
// Steps only cut, or only rewrite. `Metaspace` is a rewriting step (spaces become its character, which is
// also put in front) and one that cuts; `ByteLevel` is one that puts a space in front, one that cuts, and one
// that writes bytes as letters, which is left out where what comes after it can take bytes for letters: then
// tokens are bytes.
// Each step treats each piece that the one before has made as a text of its own.
//
// A worker first calls `prepare`, which does everything up to the last step that rewrites: the text becomes
// the rewritten pieces, one after the other, without those that were left out. Then `cut` gives the words.
// Where nothing rewrites, `prepare` does nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "growing_buffer.hpp"
#include "normalize/text.hpp"
#include "tokenizer/pretokenizer_steps.hpp"
#include "tokenizer/word_cutter.hpp"

namespace krill::tokenizer {

// Changes each piece: spaces become `replacement`, unless that is empty; then `prefix` is put in front of
// pieces that don't begin with it. Or all bytes become the letters that stand for them.
struct Rewrite {
  enum class Where : uint8_t { nowhere, at_start, everywhere };

  std::string replacement{};     // a character or nothing
  std::string prefix{};          // a character
  Where where = Where::nowhere;  // `at_start`: before the piece with which the whole input begins
  bool takes_spaces = false;  // a piece that begins with a space has the prefix: that is its model's to read
  bool letters = false;       // then the rest is empty
};

class PreTokenizer {
 public:
  using Item = std::variant<StepPtr, Rewrite>;

  explicit PreTokenizer(std::vector<Item> items);

  // Whether anything depends on where the whole input begins.
  bool asks_for_start() const;
  size_t bytes() const;

 private:
  friend class PreTokenizerCutter;

  // Steps that cut, then a rewriting one; the last stage has none.
  struct Stage {
    std::vector<StepPtr> steps;
    Rewrite rewrite;
    // From the step of this number on, all are over bytes and keep these together.
    size_t quiet_from = 0;
    regex::ByteSet together;
    // Whether the next stage has to know where pieces end; not if each begins with a character before which
    // it cuts.
    bool keeps_bounds = true;
  };

  std::vector<Stage> stages_;
};

using PreTokenizerPtr = std::shared_ptr<const PreTokenizer>;

// Of one worker.
class PreTokenizerCutter final : public WordCutter {
 public:
  explicit PreTokenizerCutter(PreTokenizerPtr pre_tokenizer) : pre_tokenizer_(std::move(pre_tokenizer)) {}

  // Before the first `cut` of a text, of which `start` bytes stand for the first character of the whole
  // input.
  void prepare(normalize::Text& text, size_t start);

  size_t cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends, size_t capacity) override;

 private:
  using Stage = PreTokenizer::Stage;

  static constexpr size_t kRoom = 256;

  // The pieces of a step in the piece of the step before that is being cut.
  struct Level {
    size_t begin = 0;  // of the piece
    size_t size = 0;
    size_t from = 0;  // how far it was cut
    size_t next = 0;
    size_t count = 0;
    uint32_t state = 0;  // of the step
    uint32_t ends[kRoom];
  };

  struct Piece {
    size_t begin;
    size_t end;
    bool dropped;
    bool whole;  // no later step cuts it
  };

  void begin(const Stage& stage, size_t size);
  bool is_whole(const uint8_t* text, const Piece& piece);
  bool is_final(const uint8_t* text, size_t level, Piece& piece);
  bool next_outer(Piece& piece);
  bool next_piece(const uint8_t* text, size_t level, Piece& piece);
  size_t cut_levels(const uint8_t* text, uint32_t* ends, size_t capacity);
  size_t copy_whole(uint32_t* ends, size_t capacity);
  void cut_all(const uint8_t* text, size_t size);
  bool changes(const Rewrite& rewrite, const normalize::Text& text, bool is_start) const;
  void rewrite_pieces(const Rewrite& rewrite, normalize::Text& text, size_t& start);

  PreTokenizerPtr pre_tokenizer_;
  // Pieces of the text that were cut before it was rewritten: where they end, if there is more than one.
  GrowingBuffer<uint32_t> bounds_;
  GrowingBuffer<uint32_t> cut_;  // all ends of a text
  // While a text is cut:
  const Stage* stage_ = nullptr;
  size_t other_at_ = 0;        // the next byte that is not kept together with those around it
  std::vector<Level> levels_;  // of all steps but the last
  size_t size_ = 0;
  size_t outer_ = 0;  // how many bounds were passed
  Piece inner_{};     // what the last step cuts
  size_t inner_from_ = 0;
  uint32_t inner_state_ = 0;
  bool has_inner_ = false;
};

}  // namespace krill::tokenizer
