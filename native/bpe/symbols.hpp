// The symbols that a word begins as, before any merge: one for each character, or for each byte of a
// byte-level vocabulary.
//
// In: a word. Out: ids, and on request how much of the word each covers. Held in memory: tables of the
// characters that are tokens, 4 bytes each in pages of 256. As Hugging Face's BPE: a character without a
// token becomes the tokens of its bytes if all of them exist (`<0x41>`), else the unknown token, else
// nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "bpe/vocabulary.hpp"

namespace krill::bpe {

struct SymbolOptions {
  // Symbols are bytes; the library's are the letters that represent them.
  bool byte_level = true;
  bool byte_fallback = false;
  bool has_unk = false;
  uint32_t unk = Vocabulary::kNoToken;  // with has_unk: none if the vocabulary lacks the unknown token
  bool fuse_unk = false;
  std::string prefix;  // of every symbol of a word but the first
  std::string suffix;  // of a word's last symbol
  // Words come with spaces in the place of U+2581, so a space is read as that.
  bool reads_spaces_as_marks = false;
};

// U+2581, which stands for a space in vocabularies of SentencePiece's style.
constexpr uint32_t kMark = 0x2581;

// One character of a text, and how many bytes it takes: 1 for a byte that begins no character.
struct TextCharacter {
  uint32_t point;
  uint32_t size;
};

// `size` is at least 1. A byte that begins no character is none of Unicode's: kNoCharacter + byte.
constexpr uint32_t kNoCharacter = 0x110000;

inline TextCharacter next_character(const uint8_t* text, size_t size) {
  const uint32_t lead = text[0];
  if (lead < 0x80) return {lead, 1};
  const auto more = [&](size_t place) { return place < size && (text[place] & 0xc0) == 0x80; };
  if (lead >= 0xc2 && lead < 0xe0 && more(1)) return {(lead & 0x1f) << 6 | (text[1] & 0x3fu), 2};
  if (lead >= 0xe0 && lead < 0xf0 && more(1) && more(2)) {
    const uint32_t point = (lead & 0x0f) << 12 | (text[1] & 0x3fu) << 6 | (text[2] & 0x3fu);
    if (point >= 0x800) return {point, 3};
  } else if (lead >= 0xf0 && lead < 0xf5 && more(1) && more(2) && more(3)) {
    const uint32_t point =
        (lead & 0x07) << 18 | (text[1] & 0x3fu) << 12 | (text[2] & 0x3fu) << 6 | (text[3] & 0x3fu);
    if (point >= 0x10000 && point < kNoCharacter) return {point, 4};
  }
  return {kNoCharacter + lead, 1};
}

class Symbols {
 public:
  // Throws std::invalid_argument for options that can't be together.
  Symbols(const Vocabulary& vocabulary, SymbolOptions options);

  // Writes at most `size` ids and returns how many. `lengths` may be null. Throws std::runtime_error if an
  // unknown token is needed and there is none in the vocabulary.
  size_t write(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths) const {
    if (is_plain_bytes_ && lengths == nullptr) [[likely]] {
      for (size_t i = 0; i < size; ++i) ids[i] = plain_[word[i]];
      return size;
    }
    if (has_plain_characters_ && lengths == nullptr) {
      // Most words are ASCII, of which each character has a token.
      size_t known = 0;
      while (known < size && (ids[known] = plain_[word[known]]) != Vocabulary::kNoToken) ++known;
      if (known == size) return size;
    }
    return write_characters(word, size, ids, lengths);
  }

  // A bit for each character that has a token of its own.
  std::vector<uint64_t> known_characters() const;
  // Whether bytes may be left out: then lengths are those of the letters that represent them in UTF-8.
  bool counts_letters() const { return counts_letters_; }
  // The length of a whole word in what lengths count.
  uint32_t length(const uint8_t* word, size_t size) const;
  // Whether a space is read as U+2581: as the options ask for it, and that is a token.
  bool reads_spaces_as_marks() const { return reads_spaces_as_marks_; }
  // Whether every byte has a token for `byte_fallback`.
  bool has_all_fallbacks() const { return has_all_fallbacks_; }
  const SymbolOptions& options() const { return options_; }
  // The ids that stand for characters without a token.
  std::vector<uint32_t> stand_ins() const;

  size_t held_bytes() const;

 private:
  // Ids by character.
  class Table {
   public:
    Table() : pages_(kPages, 0), ids_(256, Vocabulary::kNoToken) {}

    uint32_t find(uint32_t point) const { return ids_[pages_[point >> 8] * size_t{256} + (point & 0xff)]; }
    void set(uint32_t point, uint32_t id);
    bool has_page(uint32_t point) const { return pages_[point >> 8] != 0; }
    size_t held_bytes() const { return 2 * pages_.size() + 4 * ids_.size(); }

   private:
    static constexpr size_t kPages = (kNoCharacter >> 8) + 1;  // the last for bytes that are no characters

    std::vector<uint16_t> pages_;  // page 0 is empty
    std::vector<uint32_t> ids_;
  };

  void check() const;
  void collect_characters(const Vocabulary& vocabulary);
  void collect_fallbacks(const Vocabulary& vocabulary);
  size_t write_characters(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths) const;
  const Table& table(bool is_first, bool is_last) const {
    return tables_[(is_first || options_.prefix.empty() ? 0 : 1) +
                   (is_last && !options_.suffix.empty() ? 2 : 0)];
  }

  SymbolOptions options_;
  // Of plain characters, with the prefix, with the suffix, and with both.
  std::array<Table, 4> tables_;
  std::array<uint32_t, 256> plain_;  // of bytes that are characters
  std::array<uint32_t, 256> fallbacks_;
  bool is_plain_bytes_ = false;
  bool has_plain_characters_ = false;
  bool counts_letters_ = false;
  bool has_all_fallbacks_ = false;
  bool reads_spaces_as_marks_ = false;
};

}  // namespace krill::bpe
