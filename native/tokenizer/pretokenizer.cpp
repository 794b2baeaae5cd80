#include "tokenizer/pretokenizer.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tokenizer/byte_letters.hpp"
#include "tokenizer/characters.hpp"

namespace krill::tokenizer {
namespace {

bool puts_in_front(const Rewrite& rewrite, bool is_start) {
  return rewrite.where == Rewrite::Where::everywhere ||
         (rewrite.where == Rewrite::Where::at_start && is_start);
}

bool begins_with(const uint8_t* text, size_t size, const std::string& prefix) {
  return size >= prefix.size() && std::memcmp(text, prefix.data(), prefix.size()) == 0;
}

bool has_prefix(const Rewrite& rewrite, const uint8_t* text, size_t size) {
  return (rewrite.takes_spaces && text[0] == ' ') || begins_with(text, size, rewrite.prefix);
}

bool is_character(const std::string& text) {
  if (text.empty()) return false;
  const auto is_tail = [](char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; };
  return text.size() <= 4 && std::all_of(text.begin() + 1, text.end(), is_tail);
}

// Writes pieces as a rewriting step makes them, with what each byte stands for.
class PieceWriter {
 public:
  PieceWriter(const Rewrite& rewrite, normalize::Text& text)
      : rewrite_(rewrite),
        text_(text),
        source_(text.data()),
        origins_(text.tracked() ? text.present_origins() : nullptr) {
    text.next_bytes().truncate(0);
    text.next_origins().truncate(0);
    std::memcpy(replacement_, rewrite.replacement.data(), std::min(rewrite.replacement.size(), size_t{4}));
  }

  // Returns how many of the bytes written stand for what comes after `middle`.
  size_t write(size_t begin, size_t end, size_t middle, bool with_prefix) {
    if (with_prefix && !begins_with_prefix(begin, end)) put_prefix(begin, end);
    write_replaced(begin, std::min(end, middle));
    const size_t between = text_.next_bytes().size();
    write_replaced(std::max(begin, middle), end);
    return text_.next_bytes().size() - between;
  }

 private:
  // Each byte is written as four, of which the next may overwrite all but the first, or but the
  // replacement's.
  void write_replaced(size_t begin, size_t end) {
    if (begin >= end) return;
    if (rewrite_.letters) return write_letters(begin, end);
    GrowingBuffer<uint8_t>& bytes = text_.next_bytes();
    const size_t length = rewrite_.replacement.size();
    if (length == 0) {
      bytes.append(source_ + begin, end - begin);
      if (origins_ != nullptr) text_.next_origins().append(origins_ + begin, end - begin);
      return;
    }
    uint32_t replacement = 0;
    std::memcpy(&replacement, replacement_, 4);
    const auto spaces = static_cast<size_t>(std::count(source_ + begin, source_ + end, ' '));
    uint8_t* out = bytes.room(end - begin + spaces * (length - 1) + 4);
    for (size_t at = begin; at < end; ++at) {
      const bool is_space = source_[at] == ' ';
      const uint32_t four = is_space ? replacement : source_[at];
      std::memcpy(out, &four, 4);
      out += is_space ? length : 1;
    }
    bytes.set_end(out);
    if (origins_ == nullptr) return;
    for (size_t at = begin; at < end; ++at)
      text_.next_origins().append_repeated(origins_[at], source_[at] == ' ' ? length : 1);
  }

  // A letter stands for what its byte's character stands for.
  void write_letters(size_t begin, size_t end) {
    GrowingBuffer<uint8_t>& bytes = text_.next_bytes();
    uint8_t* out = bytes.room(2 * (end - begin));
    for (size_t at = begin; at < end; ++at) out = write_letter(out, source_[at]);
    bytes.set_end(out);
    if (origins_ == nullptr) return;
    for (size_t at = begin; at < end; ++at)
      text_.next_origins().append_repeated(origins_[at], is_own_letter(source_[at]) ? 1 : 2);
  }

  bool begins_with_prefix(size_t begin, size_t end) const {
    if (source_[begin] == ' ' && !rewrite_.replacement.empty())
      return rewrite_.replacement == rewrite_.prefix;
    return has_prefix(rewrite_, source_ + begin, end - begin);
  }

  // What is put in front belongs to the character that was there.
  void put_prefix(size_t begin, size_t end) {
    const std::string& prefix = rewrite_.prefix;
    text_.next_bytes().append(reinterpret_cast<const uint8_t*>(prefix.data()), prefix.size());
    if (origins_ == nullptr) return;
    const size_t first = first_length(source_ + begin, end - begin);
    text_.next_origins().append_repeated({origins_[begin].begin, origins_[begin + first - 1].end},
                                         prefix.size());
  }

  const Rewrite& rewrite_;
  normalize::Text& text_;
  const uint8_t* source_;
  const normalize::Origin* origins_;
  uint8_t replacement_[4] = {};
};

}  // namespace

PreTokenizer::PreTokenizer(std::vector<Item> items) : stages_(1) {
  for (Item& item : items) {
    if (auto* step = std::get_if<StepPtr>(&item)) {
      stages_.back().steps.push_back(std::move(*step));
      continue;
    }
    Rewrite& rewrite = std::get<Rewrite>(item);
    if (!is_character(rewrite.prefix) &&
        (!rewrite.prefix.empty() || rewrite.where != Rewrite::Where::nowhere))
      throw std::invalid_argument("a pre-tokenizer puts one character in front");
    if (!is_character(rewrite.replacement) && !rewrite.replacement.empty())
      throw std::invalid_argument("a pre-tokenizer replaces spaces by one character");
    stages_.back().rewrite = std::move(rewrite);
    stages_.emplace_back();
  }
  for (size_t number = 0; number + 1 < stages_.size(); ++number) {
    const Rewrite& rewrite = stages_[number].rewrite;
    const std::vector<StepPtr>& next = stages_[number + 1].steps;
    stages_[number].keeps_bounds =
        rewrite.where != Rewrite::Where::everywhere || next.empty() || !next[0]->cuts_before(rewrite.prefix);
  }
  for (Stage& stage : stages_) {
    stage.steps = fused(std::move(stage.steps));
    stage.quiet_from = stage.steps.size();
    while (stage.quiet_from > 0 && stage.steps[stage.quiet_from - 1]->kept_together()) --stage.quiet_from;
    stage.together =
        kept_together(stage.steps.data() + stage.quiet_from, stage.steps.size() - stage.quiet_from);
  }
}

bool PreTokenizer::asks_for_start() const {
  return std::ranges::any_of(
      stages_, [](const Stage& stage) { return stage.rewrite.where == Rewrite::Where::at_start; });
}

size_t PreTokenizer::bytes() const {
  size_t sum = sizeof(*this);
  for (const Stage& stage : stages_) {
    for (const StepPtr& step : stage.steps) sum += step->bytes();
  }
  return sum;
}

void PreTokenizerCutter::begin(const Stage& stage, size_t size) {
  const std::vector<StepPtr>& steps = stage.steps;
  stage_ = &stage;
  other_at_ = 0;
  size_ = size;
  outer_ = 0;
  has_inner_ = false;
  levels_.resize(steps.empty() ? 0 : steps.size() - 1);
  for (Level& level : levels_) level.size = level.from = level.next = level.count = 0;
}

// Whether all of a piece's bytes are kept together. Pieces come in order, so that each byte is read once.
bool PreTokenizerCutter::is_whole(const uint8_t* text, const Piece& piece) {
  if (other_at_ <= piece.begin) other_at_ = stage_->together.end_of(text, size_, piece.begin);
  return other_at_ >= piece.end;
}

// Whether a piece that was made by `level` steps is left as it is by those behind.
bool PreTokenizerCutter::is_final(const uint8_t* text, size_t level, Piece& piece) {
  piece.whole |= level == stage_->steps.size() || (level == stage_->quiet_from && is_whole(text, piece));
  return piece.dropped || piece.whole;
}

// The pieces that were there before these steps.
bool PreTokenizerCutter::next_outer(Piece& piece) {
  if (bounds_.size() == 0) {
    piece = {0, size_, false, false};
    return outer_++ == 0 && size_ != 0;
  }
  if (outer_ == bounds_.size()) return false;
  piece = {outer_ == 0 ? 0 : bounds_[outer_ - 1], bounds_[outer_], false, false};
  ++outer_;
  return true;
}

bool PreTokenizerCutter::next_piece(const uint8_t* text, size_t level, Piece& piece) {
  if (level == 0) return next_outer(piece);
  Level& own = levels_[level - 1];
  for (;;) {
    if (own.next < own.count) {
      const uint32_t end = own.ends[own.next];
      const size_t before = own.next == 0 ? own.from : own.ends[own.next - 1] & ~kDropped;
      piece = {own.begin + before, own.begin + (end & ~kDropped), (end & kDropped) != 0, false};
      if (++own.next == own.count) own.from = end & ~kDropped;
      return true;
    }
    if (own.from == own.size) {
      Piece outer{};
      if (!next_piece(text, level - 1, outer)) return false;
      if (is_final(text, level - 1, outer)) {
        piece = outer;
        return true;
      }
      own.begin = outer.begin;
      own.size = outer.end - outer.begin;
      own.from = 0;
    }
    own.next = 0;
    own.count =
        stage_->steps[level - 1]->cut(text + own.begin, own.size, own.from, own.ends, kRoom, own.state);
  }
}

// The pieces that are left as they are, up to the next byte that may be cut off.
size_t PreTokenizerCutter::copy_whole(uint32_t* ends, size_t capacity) {
  const size_t quiet_from = stage_->quiet_from;
  if (quiet_from == 0 || quiet_from > levels_.size()) return 0;
  for (size_t level = quiet_from; level < levels_.size(); ++level) {
    if (levels_[level].next < levels_[level].count || levels_[level].from < levels_[level].size) return 0;
  }
  Level& own = levels_[quiet_from - 1];
  const auto begin = static_cast<uint32_t>(own.begin);
  size_t count = 0;
  for (; own.next < own.count && count < capacity; ++own.next) {
    const uint32_t end = own.ends[own.next];
    if (begin + (end & ~kDropped) > other_at_) break;
    ends[count++] = begin + end;
    own.from = end & ~kDropped;
  }
  return count;
}

size_t PreTokenizerCutter::cut_levels(const uint8_t* text, uint32_t* ends, size_t capacity) {
  const std::vector<StepPtr>& steps = stage_->steps;
  size_t count = 0;
  while (count < capacity) {
    if (!has_inner_) {
      if (const size_t copied = copy_whole(ends + count, capacity - count)) {
        count += copied;
        continue;
      }
      if (!next_piece(text, levels_.size(), inner_)) break;
      if (is_final(text, levels_.size(), inner_)) {
        ends[count++] = static_cast<uint32_t>(inner_.end) | (inner_.dropped ? kDropped : 0);
        continue;
      }
      has_inner_ = true;
      inner_from_ = 0;
    }
    const size_t size = inner_.end - inner_.begin;
    const size_t found = steps.back()->cut(text + inner_.begin, size, inner_from_, ends + count,
                                           capacity - count, inner_state_);
    inner_from_ = ends[count + found - 1] & ~kDropped;
    for (const size_t end = count + found; count < end; ++count)
      ends[count] += static_cast<uint32_t>(inner_.begin);
    has_inner_ = inner_from_ < size;
  }
  return count;
}

size_t PreTokenizerCutter::cut(const uint8_t* text, size_t size, size_t from, uint32_t* ends,
                               size_t capacity) {
  const PreTokenizer::Stage& stage = pre_tokenizer_->stages_.back();
  const std::vector<StepPtr>& steps = stage.steps;
  if (bounds_.size() == 0 && steps.size() == 1)
    return steps[0]->cut(text, size, from, ends, capacity, inner_state_);
  if (from == 0) begin(stage, size);
  return cut_levels(text, ends, capacity);
}

// All pieces of a text, in `cut_`.
void PreTokenizerCutter::cut_all(const uint8_t* text, size_t size) {
  cut_.truncate(0);
  for (size_t at = 0; at < size;) {
    uint32_t* room = cut_.room(kRoom);
    const size_t count = cut_levels(text, room, kRoom);
    if (count == 0) return;
    at = room[count - 1] & ~kDropped;
    cut_.set_end(room + count);
  }
}

// Whether a text that is one piece would become another one.
bool PreTokenizerCutter::changes(const Rewrite& rewrite, const normalize::Text& text, bool is_start) const {
  if (rewrite.letters) return !std::all_of(text.data(), text.data() + text.size(), is_own_letter);
  if (!rewrite.replacement.empty() && std::memchr(text.data(), ' ', text.size()) != nullptr) return true;
  return puts_in_front(rewrite, is_start) && !has_prefix(rewrite, text.data(), text.size());
}

// Pieces that begin before `start` stand for the input's first character; becomes the same of the new text.
void PreTokenizerCutter::rewrite_pieces(const Rewrite& rewrite, normalize::Text& text, size_t& start) {
  PieceWriter writer(rewrite, text);
  bounds_.truncate(0);
  size_t begin = 0;
  size_t new_start = 0;
  for (size_t number = 0; number < cut_.size(); ++number) {
    const size_t end = cut_[number] & ~kDropped;
    if ((cut_[number] & kDropped) == 0) {
      const size_t rest = writer.write(begin, end, start, puts_in_front(rewrite, begin < start));
      bounds_.push_back(static_cast<uint32_t>(text.next_bytes().size()));
      if (begin < start) new_start = text.next_bytes().size() - rest;
    }
    begin = end;
  }
  start = new_start;
  text.flip();
}

void PreTokenizerCutter::prepare(normalize::Text& text, size_t start) {
  bounds_.truncate(0);
  const auto& stages = pre_tokenizer_->stages_;
  for (size_t stage = 0; stage + 1 < stages.size(); ++stage) {
    if (text.size() >= kTooLong) throw std::invalid_argument("a text is 2 GiB or longer");
    if (text.size() == 0) return;
    const Rewrite& rewrite = stages[stage].rewrite;
    if (stages[stage].steps.empty() && bounds_.size() == 0 && !changes(rewrite, text, start > 0)) continue;
    begin(stages[stage], text.size());
    cut_all(text.data(), text.size());
    rewrite_pieces(rewrite, text, start);
    if (bounds_.size() == 1 || !stages[stage].keeps_bounds) bounds_.truncate(0);
  }
}

}  // namespace krill::tokenizer
