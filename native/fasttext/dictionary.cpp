#include "fasttext/dictionary.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace krill::fasttext {

namespace {

constexpr size_t kEntryBytes = 10;  // at least: the zero after its text, its count, its kind
constexpr size_t kPairBytes = 8;

size_t slots_for(size_t count) { return std::bit_ceil(std::max<size_t>(count + count / 3, 1) + 1); }

// Of a bucket's number: neighbours are to lie apart.
size_t spread(uint32_t bucket) { return bucket * size_t{0x9e3779b97f4a7c15u} >> 32; }

}  // namespace

Dictionary::Dictionary(ModelReader& reader, const FeatureOptions& options)
    : options_(options), reciprocal_(options.buckets == 0 ? 0 : ~uint64_t{0} / options.buckets + 1) {
  const auto size = reader.number<int32_t>();
  const auto words = reader.number<int32_t>();
  const auto labels = reader.number<int32_t>();
  (void)reader.number<int64_t>();  // tokens of the training
  const auto pruned = reader.number<int64_t>();
  expect(words >= 0 && labels > 0 && int64_t{size} == int64_t{words} + labels,
         "its numbers of words and labels do not fit together, or it has no label");
  words_ = static_cast<size_t>(words);
  labels_ = static_cast<size_t>(labels);
  read_entries(reader, static_cast<size_t>(size));
  pruned_ = pruned >= 0;
  if (pruned > 0) read_pruned(reader, static_cast<uint64_t>(pruned));
  index_entries();
}

void Dictionary::read_entries(ModelReader& reader, size_t count) {
  reader.expect_left(count, kEntryBytes);
  starts_ = GrowingBuffer<uint32_t>(count + 1);
  starts_.push_back(0);
  for (size_t entry = 0; entry < count; ++entry) {
    reader.append_text(texts_);
    expect(texts_.size() <= std::numeric_limits<uint32_t>::max(), "its words take 4 GiB or more");
    starts_.push_back(static_cast<uint32_t>(texts_.size()));
    const auto seen = reader.number<int64_t>();
    const auto kind = reader.number<uint8_t>();
    const bool is_label = entry >= words_;
    expect(kind == (is_label ? 1 : 0), "its labels do not follow its words");
    if (is_label) label_counts_.push_back(seen);
  }
  texts_.shrink_to_fit();
}

void Dictionary::read_pruned(ModelReader& reader, size_t count) {
  reader.expect_left(count, kPairBytes);
  const size_t slots = slots_for(count);
  buckets_ = GrowingBuffer<Bucket>(slots);
  buckets_.append_repeated({kFree, 0}, slots);
  for (size_t pair = 0; pair < count; ++pair) {
    const auto bucket = reader.number<int32_t>();
    const auto row = reader.number<int32_t>();
    expect(bucket >= 0 && row >= 0, "a bucket in it has an impossible number");
    size_t at = spread(static_cast<uint32_t>(bucket)) & (slots - 1);
    while (buckets_[at].bucket != kFree && buckets_[at].bucket != bucket) at = (at + 1) & (slots - 1);
    buckets_[at] = {bucket, row};
    pruned_rows_ = std::max(pruned_rows_, static_cast<size_t>(row) + 1);
  }
}

void Dictionary::index_entries() {
  const size_t count = words_ + labels_;
  const size_t slots = slots_for(count);
  slots_ = GrowingBuffer<Slot>(slots);
  slots_.append_repeated({0, kFree}, slots);
  for (size_t entry = 0; entry < count; ++entry) {
    const uint32_t hash = hash_of(text_of(entry));
    size_t at = hash & (slots - 1);
    // Of two that are the same, the later one counts.
    while (slots_[at].entry != kFree &&
           !(slots_[at].hash == hash && text_of(static_cast<size_t>(slots_[at].entry)) == text_of(entry)))
      at = (at + 1) & (slots - 1);
    slots_[at] = {hash, static_cast<int32_t>(entry)};
  }
}

int32_t Dictionary::find(std::string_view word, uint32_t hash) const {
  const size_t mask = slots_.size() - 1;
  for (size_t at = hash & mask;; at = (at + 1) & mask) {
    const Slot& slot = slots_[at];
    if (slot.entry == kFree) return kFree;
    if (slot.hash == hash && text_of(static_cast<size_t>(slot.entry)) == word) return slot.entry;
  }
}

size_t Dictionary::rows_needed() const {
  const bool has_ngrams = options_.longest > 0 || options_.word_ngrams > 1;
  if (!has_ngrams) return words_;
  return words_ + (pruned_ ? pruned_rows_ : options_.buckets);
}

std::optional<uint32_t> Dictionary::unpruned_row(uint32_t bucket) const {
  const size_t mask = buckets_.size() - 1;
  if (buckets_.size() == 0) return std::nullopt;
  for (size_t at = spread(bucket) & mask;; at = (at + 1) & mask) {
    const Bucket& found = buckets_[at];
    if (found.bucket == kFree) return std::nullopt;
    if (found.bucket == static_cast<int32_t>(bucket))
      return static_cast<uint32_t>(words_) + static_cast<uint32_t>(found.row);
  }
}

}  // namespace krill::fasttext
