#include "bpe/encoder.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "bpe/encoder_offsets.hpp"

namespace krill {

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
    const WordModel model{owner.vocabulary_, owner.merges_, options.pattern, options.ignore_merges,
                          owner.long_words_};
    worker_ = std::make_unique<WordEncoder<Id>>(model, options.cache_bytes);
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
Encoder<Id>::Encoder(const VocabularyArrays& vocabulary, std::span<const std::uint32_t> merges,
                     const std::vector<AddedToken>& added, EncoderOptions options)
    : vocabulary_(vocabulary, options.ignore_merges),
      merges_(vocabulary_, merges),
      added_(added),
      options_(std::move(options)) {
  if (options_.workers == 0) throw std::invalid_argument("there must be a worker");
  std::uint64_t largest = vocabulary_.size() == 0 ? 0 : vocabulary_.size() - 1;
  for (const AddedToken& token : added) largest = std::max<std::uint64_t>(largest, token.id);
  for (const auto* ids : {&options_.prefix, &options_.suffix})
    for (const std::uint32_t id : *ids) largest = std::max<std::uint64_t>(largest, id);
  if (largest > std::numeric_limits<Id>::max())
    throw std::invalid_argument("an id is too large for its type");
  idle_.reserve(options_.workers);
}

// A token for every three bytes is more than most texts have.
template <class Id>
std::size_t Encoder<Id>::likely_ids(std::size_t rows, std::size_t bytes) const {
  return rows * (options_.prefix.size() + options_.suffix.size() + 1) + bytes / 3;
}

template <class Id>
EncodedRuns<Id> Encoder<Id>::encode(const TextColumn& documents, std::optional<std::uint32_t> eos) {
  if (eos && *eos > std::numeric_limits<Id>::max())
    throw std::invalid_argument("eos is too large for its type");
  const Lease worker(*this);
  EncodedRuns<Id> runs{GrowingIds<Id>(likely_ids(documents.rows, documents.total())),
                       Buffer<std::uint32_t>(documents.rows)};
  for (std::size_t row = 0; row < documents.rows; ++row) {
    const std::size_t begin = runs.ids.size();
    encode_document(*worker, documents.begin(row), documents.size(row), runs.ids);
    if (eos) runs.ids.append(static_cast<Id>(*eos));
    runs.lengths[row] = static_cast<std::uint32_t>(runs.ids.size() - begin);
  }
  return runs;
}

template <class Id>
void Encoder<Id>::encode_document(WordEncoder<Id>& words, const std::uint8_t* text, std::size_t size,
                                  GrowingIds<Id>& ids) const {
  for (const std::uint32_t id : options_.prefix) ids.append(static_cast<Id>(id));
  added_.split(text, size, [&](std::size_t begin, std::size_t end, std::uint32_t id) {
    if (id == Vocabulary::kNoToken)
      words.encode(text + begin, end - begin, ids);
    else
      ids.append(static_cast<Id>(id));
  });
  for (const std::uint32_t id : options_.suffix) ids.append(static_cast<Id>(id));
}

template <class Id>
OffsetTokens<Id> Encoder<Id>::encode_offsets(const std::uint8_t* text, std::size_t size) {
  const Lease worker(*this);
  const std::size_t likely = likely_ids(1, size);
  OffsetTokens<Id> tokens{GrowingIds<Id>(likely), GrowingIds<std::uint32_t>(2 * likely)};
  OffsetTracker tracker(vocabulary_, text, {options_.trims_offsets, options_.keeps_first_space},
                        tokens.offsets);
  const auto add_nowhere = [&](const std::vector<std::uint32_t>& ids) {
    for (const std::uint32_t id : ids) {
      tokens.ids.append(static_cast<Id>(id));
      tokens.offsets.append(0);
      tokens.offsets.append(0);
    }
  };
  add_nowhere(options_.prefix);
  added_.split(text, size, [&](std::size_t begin, std::size_t end, std::uint32_t id) {
    if (id != Vocabulary::kNoToken) {
      tokens.ids.append(static_cast<Id>(id));
      return tracker.add_added(begin, end);
    }
    (*worker).encode_each(text + begin, end - begin, tokens.ids,
                          [&](std::size_t word, std::size_t word_end, const Id* ids, const Id* ids_end) {
                            tracker.add_word(begin + word, begin + word_end,
                                             std::span<const Id>(ids, ids_end));
                          });
  });
  add_nowhere(options_.suffix);
  return tokens;
}

template <class Id>
WordStatistics Encoder<Id>::statistics() {
  const std::lock_guard lock(pool_lock_);
  return statistics_;
}

template class Encoder<std::uint16_t>;
template class Encoder<std::uint32_t>;

}  // namespace krill
