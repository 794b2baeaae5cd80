// The words and labels of a model, and which rows of its matrix a text has: its words, their character
// n-grams, its word n-grams.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "buffer.hpp"
#include "fasttext/model_reader.hpp"
#include "growing_buffer.hpp"

namespace krill::fasttext {

// What of the settings in a file decides how a text is read.
struct FeatureOptions {
  int32_t word_ngrams;
  uint32_t buckets;
  int32_t shortest;  // character n-grams
  int32_t longest;
};

class Dictionary {
 public:
  Dictionary(ModelReader& reader, const FeatureOptions& options);

  size_t words() const { return words_; }
  size_t labels() const { return labels_; }
  std::string_view label(size_t number) const { return text_of(words_ + number); }
  // How often each label was seen in training.
  const std::vector<int64_t>& label_counts() const { return label_counts_; }
  // Rows that the matrix must have.
  size_t rows_needed() const;
  bool is_pruned() const { return pruned_; }

  struct Scratch {
    std::string word;
    GrowingBuffer<int32_t> hashes;
  };

  // Calls `use` with each row of a text, in fastText's order: for words in their order the word and its
  // n-grams, and at last n-grams of words. Lines are as many as the text has; a line end separates words.
  template <class Use>
  void for_rows(std::string_view text, Scratch& scratch, Use use) const;

 private:
  struct Slot {
    uint32_t hash;
    int32_t entry;
  };
  struct Bucket {
    int32_t bucket;
    int32_t row;
  };
  static constexpr int32_t kFree = -1;
  static constexpr std::string_view kLineEnd = "</s>";
  static constexpr std::string_view kLabelPrefix = "__label__";

  void read_entries(ModelReader& reader, size_t count);
  void read_pruned(ModelReader& reader, size_t count);
  void index_entries();
  int32_t find(std::string_view word, uint32_t hash) const;
  std::string_view text_of(size_t entry) const {
    return {texts_.data() + starts_[entry], starts_[entry + 1] - starts_[entry]};
  }

  static uint32_t next_hash(uint32_t hash, char byte) {
    return (hash ^ static_cast<uint32_t>(static_cast<int8_t>(byte))) * 16777619u;
  }
  static uint32_t hash_of(std::string_view word) {
    uint32_t hash = kFirstHash;
    for (const char byte : word) hash = next_hash(hash, byte);
    return hash;
  }
  static bool separates(char byte) { return byte == ' ' || (byte >= '\t' && byte <= '\r') || byte == '\0'; }
  static bool continues(char byte) { return (static_cast<uint8_t>(byte) & 0xc0) == 0x80; }
  static constexpr uint32_t kFirstHash = 2166136261u;

  // The remainder of a division by `buckets`, without dividing.
  uint32_t bucket_of(uint32_t hash) const {
    const uint64_t fraction = reciprocal_ * hash;
    return static_cast<uint32_t>((static_cast<unsigned __int128>(fraction) * options_.buckets) >> 64);
  }
  // The row of a bucket that is not pruned, of a model in which others are.
  std::optional<uint32_t> unpruned_row(uint32_t bucket) const;
  template <class Use>
  void use_bucket(uint32_t bucket, Use& use) const {
    if (!pruned_) {
      use(static_cast<uint32_t>(words_) + bucket);
    } else if (const auto row = unpruned_row(bucket)) {
      use(*row);
    }
  }
  template <class Use>
  void use_word(std::string_view word, Scratch& scratch, Use& use) const;
  template <class Use>
  void use_characters(std::string_view word, Scratch& scratch, Use& use) const;
  template <class Use>
  void use_word_ngrams(const GrowingBuffer<int32_t>& hashes, Use& use) const;

  FeatureOptions options_;
  uint64_t reciprocal_;
  size_t words_ = 0;
  size_t labels_ = 0;
  GrowingBuffer<char> texts_;
  GrowingBuffer<uint32_t> starts_;
  std::vector<int64_t> label_counts_;
  GrowingBuffer<Slot> slots_;
  bool pruned_ = false;
  size_t pruned_rows_ = 0;
  GrowingBuffer<Bucket> buckets_;
};

template <class Use>
void Dictionary::for_rows(std::string_view text, Scratch& scratch, Use use) const {
  scratch.hashes.truncate(0);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (true) {
    while (at < end && separates(*at)) ++at;
    const char* const begin = at;
    while (at < end && !separates(*at)) ++at;
    const std::string_view word =
        begin < at ? std::string_view(begin, static_cast<size_t>(at - begin)) : kLineEnd;
    use_word(word, scratch, use);
    if (word == kLineEnd) break;
  }
  if (options_.word_ngrams > 1) use_word_ngrams(scratch.hashes, use);
}

template <class Use>
void Dictionary::use_word(std::string_view word, Scratch& scratch, Use& use) const {
  const uint32_t hash = hash_of(word);
  const int32_t entry = find(word, hash);
  const bool is_label =
      entry == kFree ? word.starts_with(kLabelPrefix) : static_cast<size_t>(entry) >= words_;
  if (is_label) return;
  if (entry != kFree) use(static_cast<uint32_t>(entry));
  if (options_.longest > 0 && word != kLineEnd) use_characters(word, scratch, use);
  if (options_.word_ngrams > 1) scratch.hashes.push_back(static_cast<int32_t>(hash));
}

template <class Use>
void Dictionary::use_characters(std::string_view word, Scratch& scratch, Use& use) const {
  std::string& marked = scratch.word;
  marked.assign(1, '<').append(word).push_back('>');
  const char* const text = marked.data();
  const size_t size = marked.size();
  for (size_t begin = 0; begin < size; ++begin) {
    if (continues(text[begin])) continue;
    uint32_t hash = kFirstHash;
    size_t at = begin;
    for (int32_t length = 1; at < size && length <= options_.longest; ++length) {
      do {
        hash = next_hash(hash, text[at++]);
      } while (at < size && continues(text[at]));
      const bool is_mark = length == 1 && (begin == 0 || at == size);
      if (length >= options_.shortest && !is_mark) use_bucket(bucket_of(hash), use);
    }
  }
}

template <class Use>
void Dictionary::use_word_ngrams(const GrowingBuffer<int32_t>& hashes, Use& use) const {
  const auto extend = [](uint64_t hash, int32_t next) {
    return hash * 116049371u + static_cast<uint64_t>(int64_t{next});
  };
  const auto longest = static_cast<size_t>(options_.word_ngrams);
  for (size_t begin = 0; begin < hashes.size(); ++begin) {
    auto hash = static_cast<uint64_t>(int64_t{hashes[begin]});
    for (size_t at = begin + 1; at < hashes.size() && at < begin + longest; ++at) {
      hash = extend(hash, hashes[at]);
      use_bucket(static_cast<uint32_t>(hash % options_.buckets), use);
    }
  }
}

}  // namespace krill::fasttext
