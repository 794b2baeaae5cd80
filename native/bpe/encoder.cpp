#include "bpe/encoder.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "bpe/encoder_offsets.hpp"

namespace krill::bpe {

using tokenizer::WordEncoder;
using tokenizer::WordStatistics;

// A worker for as long as a call lasts.
template <class Id>
class Encoder<Id>::Lease {
 public:
  explicit Lease(Encoder& owner) : owner_(owner) {
    std::unique_lock lock(owner.pool_lock_);
    owner.given_back_.wait(lock,
                           [&] { return !owner.idle_.empty() || owner.made_ < owner.options_.workers; });
    if (!owner.idle_.empty()) {
      worker_ = std::move(owner.idle_.back());
      owner.idle_.pop_back();
      return;
    }
    const EncoderOptions& options = owner.options_;
    worker_ = std::make_unique<WordEncoder<Id>>(owner.model_,
                                                std::make_unique<tokenizer::PatternCutter>(options.pattern),
                                                options.cache_bytes, owner.long_words_);
    ++owner.made_;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    {
      const std::lock_guard lock(owner_.pool_lock_);
      owner_.statistics_.add(worker_->take_statistics());
      owner_.idle_.push_back(std::move(worker_));
    }
    owner_.given_back_.notify_one();
  }

  WordEncoder<Id>& operator*() const { return *worker_; }

 private:
  Encoder& owner_;
  std::unique_ptr<WordEncoder<Id>> worker_;
};

template <class Id>
Encoder<Id>::Encoder(const VocabularyArrays& vocabulary, std::span<const uint32_t> merges,
                     const std::vector<AddedToken>& added, EncoderOptions options)
    : model_(vocabulary, merges, {.symbols = {}, .ignore_merges = options.ignore_merges}),
      added_(added),
      options_(std::move(options)) {
  if (options_.workers == 0) throw std::invalid_argument("there must be a worker");
  uint64_t largest = model_.largest_id();
  for (const AddedToken& token : added) largest = std::max<uint64_t>(largest, token.id);
  for (const auto* ids : {&options_.prefix, &options_.suffix})
    for (const uint32_t id : *ids) largest = std::max<uint64_t>(largest, id);
  if (largest > std::numeric_limits<Id>::max())
    throw std::invalid_argument("an id is too large for its type");
  idle_.reserve(options_.workers);
}

// A token for every three bytes is more than most texts have.
template <class Id>
size_t Encoder<Id>::likely_ids(size_t rows, size_t bytes) const {
  return rows * (options_.prefix.size() + options_.suffix.size() + 1) + bytes / 3;
}

template <class Id>
EncodedBatch<Id> Encoder<Id>::encode(const text::TextColumn& documents, std::optional<uint32_t> eos) {
  if (eos && *eos > std::numeric_limits<Id>::max())
    throw std::invalid_argument("eos is too large for its type");
  const Lease worker(*this);
  EncodedBatch<Id> batch{GrowingBuffer<Id>(likely_ids(documents.rows, documents.total())),
                         Buffer<uint32_t>(documents.rows)};
  for (size_t row = 0; row < documents.rows; ++row) {
    const size_t begin = batch.ids.size();
    encode_document(*worker, documents.begin(row), documents.size(row), batch.ids);
    if (eos) batch.ids.push_back(static_cast<Id>(*eos));
    batch.lengths[row] = static_cast<uint32_t>(batch.ids.size() - begin);
  }
  return batch;
}

template <class Id>
void Encoder<Id>::encode_document(WordEncoder<Id>& words, const uint8_t* text, size_t size,
                                  GrowingBuffer<Id>& ids) const {
  for (const uint32_t id : options_.prefix) ids.push_back(static_cast<Id>(id));
  added_.split(text, size, [&](size_t begin, size_t end, uint32_t id) {
    if (id == Vocabulary::kNoToken)
      words.encode(text + begin, end - begin, ids);
    else
      ids.push_back(static_cast<Id>(id));
  });
  for (const uint32_t id : options_.suffix) ids.push_back(static_cast<Id>(id));
}

template <class Id>
OffsetTokens<Id> Encoder<Id>::encode_offsets(const uint8_t* text, size_t size) {
  const Lease worker(*this);
  const size_t likely = likely_ids(1, size);
  OffsetTokens<Id> tokens{GrowingBuffer<Id>(likely), GrowingBuffer<uint32_t>(2 * likely)};
  OffsetTracker tracker(model_.vocabulary(), text, {options_.trims_offsets, options_.keeps_first_space},
                        tokens.offsets);
  const auto add_nowhere = [&](const std::vector<uint32_t>& ids) {
    for (const uint32_t id : ids) {
      tokens.ids.push_back(static_cast<Id>(id));
      tokens.offsets.push_back(0);
      tokens.offsets.push_back(0);
    }
  };
  GrowingBuffer<tokenizer::TokenRange> ranges;
  add_nowhere(options_.prefix);
  added_.split(text, size, [&](size_t begin, size_t end, uint32_t id) {
    if (id != Vocabulary::kNoToken) {
      tokens.ids.push_back(static_cast<Id>(id));
      return tracker.add_added(begin, end);
    }
    const size_t before = tokens.ids.size();
    ranges.truncate(0);
    (*worker).encode_ranges(text + begin, end - begin, tokens.ids, ranges);
    for (size_t i = 0; i < ranges.size(); ++i) {
      const auto first = static_cast<uint32_t>(begin);
      tracker.add_token(tokens.ids[before + i], {first + ranges[i].begin, first + ranges[i].end});
    }
  });
  add_nowhere(options_.suffix);
  return tokens;
}

template <class Id>
WordStatistics Encoder<Id>::statistics() {
  const std::lock_guard lock(pool_lock_);
  return statistics_;
}

template class Encoder<uint16_t>;
template class Encoder<uint32_t>;

}  // namespace krill::bpe
