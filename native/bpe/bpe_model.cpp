#include "bpe/bpe_model.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace krill::bpe {

using tokenizer::BatchWord;
using tokenizer::ModelScratch;

class BpeModel::Scratch final : public ModelScratch {
 public:
  void release() override { merging.release(); }

  MergeScratch merging;
  std::vector<SymbolRun> runs;
  std::vector<BatchWord*> words;  // of `runs`
  std::vector<uint64_t> hashes;
};

BpeModel::BpeModel(const VocabularyArrays& vocabulary, std::span<const uint32_t> merges, BpeOptions options)
    : ignore_merges_(options.ignore_merges),
      vocabulary_(vocabulary, options.ignore_merges, options.symbols.byte_level),
      merges_(vocabulary_, merges, options.symbols.prefix.size()),
      symbols_(vocabulary_, std::move(options.symbols)),
      merger_(merges_) {
  const SymbolOptions& given = symbols_.options();
  if (given.reads_spaces_as_marks && ignore_merges_)
    throw std::invalid_argument("spaces that are read as marks in words that are looked up whole");
  const bool may_cut =
      given.prefix.empty() && given.suffix.empty() && (!given.byte_level || vocabulary_.covers_all_bytes());
  has_lengths_ = given.prefix.empty() && given.suffix.empty() && !symbols_.counts_letters();
  stand_ins_ = symbols_.stand_ins();
  std::ranges::sort(stand_ins_);
  for (size_t at = 0; at < merges.size() && has_lengths_; at += 3)
    has_lengths_ = !std::ranges::binary_search(stand_ins_, merges[at]) &&
                   !std::ranges::binary_search(stand_ins_, merges[at + 1]);
  if (may_cut) cuts_.emplace(vocabulary_, symbols_, merges);
  if (ignore_merges_) find_unmerged();
}

std::unique_ptr<ModelScratch> BpeModel::make_scratch() const { return std::make_unique<Scratch>(); }

void BpeModel::find_unmerged() {
  unmerged_.assign(vocabulary_.size() / 64 + 1, 0);
  MergeScratch scratch;
  std::vector<uint32_t> ids(vocabulary_.longest());
  for (uint32_t token = 0; token < vocabulary_.size(); ++token) {
    if (!vocabulary_.has(token, kWord)) continue;
    const auto bytes = vocabulary_.bytes(token);
    size_t count = 0;
    try {
      count = symbols_.write(bytes.data(), bytes.size(), ids.data(), nullptr);
    } catch (const std::runtime_error&) {  // without the unknown token the bytes can't be a piece
    }
    if (merger_.merge(ids.data(), count, nullptr, scratch) == 1 && ids[0] == token) continue;
    unmerged_[token / 64] |= uint64_t{1} << token % 64;
    longest_unmerged_ = std::max(longest_unmerged_, bytes.size());
  }
}

bool BpeModel::is_whole(const uint8_t* word, size_t size) const {
  return size <= longest_unmerged_ && whole_token(word, size) != kNoToken;
}

size_t BpeModel::encode(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths,
                        ModelScratch& scratch) const {
  const uint32_t whole = whole_token(word, size);
  if (whole != kNoToken) {
    ids[0] = whole;
    if (lengths != nullptr) lengths[0] = symbols_.length(word, size);
    return 1;
  }
  const size_t count = symbols_.write(word, size, ids, lengths);
  return merger_.merge(ids, count, lengths, static_cast<Scratch&>(scratch).merging);
}

void BpeModel::encode_batch(std::span<BatchWord> words, ModelScratch& given) const {
  auto& scratch = static_cast<Scratch&>(given);
  scratch.runs.clear();
  scratch.words.clear();
  scratch.hashes.clear();
  for (size_t i = 0; ignore_merges_ && i < words.size(); ++i)
    scratch.hashes.push_back(vocabulary_.look_ahead(words[i].data, words[i].size));
  for (size_t i = 0; i < words.size(); ++i) {
    BatchWord& word = words[i];
    const uint32_t whole =
        ignore_merges_ ? vocabulary_.find_hashed(word.data, word.size, scratch.hashes[i]) : kNoToken;
    word.may_be_cached = whole == kNoToken || !is_unmerged(whole);
    if (whole != kNoToken && !(word.is_piece && !word.may_be_cached)) {
      word.ids[0] = whole;
      word.count = 1;
      continue;
    }
    const size_t count = symbols_.write(word.data, word.size, word.ids, nullptr);
    if (count <= WordMerger::kShort) [[likely]] {
      scratch.runs.push_back({word.ids, count});
      scratch.words.push_back(&word);
    } else {
      word.count = static_cast<uint32_t>(merger_.merge_long(word.ids, count, nullptr, scratch.merging));
    }
  }
  merger_.merge_batch(scratch.runs);
  for (size_t i = 0; i < scratch.runs.size(); ++i)
    scratch.words[i]->count = static_cast<uint32_t>(scratch.runs[i].count);
}

uint32_t BpeModel::length_of(uint32_t id) const {
  if (!has_lengths_ || std::ranges::binary_search(stand_ins_, id)) return 0;
  return static_cast<uint32_t>(vocabulary_.bytes(id).size());
}

uint32_t BpeModel::largest_id() const {
  return vocabulary_.size() == 0 ? 0 : static_cast<uint32_t>(vocabulary_.size() - 1);
}

size_t BpeModel::held_bytes() const {
  return vocabulary_.held_bytes() + merges_.bytes() + symbols_.held_bytes() + 8 * unmerged_.size() +
         (cuts_ ? cuts_->held_bytes() : 0);
}

}  // namespace krill::bpe
