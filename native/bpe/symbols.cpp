#include "bpe/symbols.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace krill::bpe {

namespace {

// UTF-8 length of the letter that represents a byte in tokens: printable bytes represent themselves.
uint32_t letter_bytes(uint8_t byte) { return byte >= 0x21 && byte <= 0x7e ? 1 : 2; }

std::string_view text_of(std::span<const uint8_t> token) {
  return {reinterpret_cast<const char*>(token.data()), token.size()};
}

// Symbols and their lengths as they are found; the unknown token waits for what follows.
class SymbolWriter {
 public:
  SymbolWriter(uint32_t* ids, uint32_t* lengths) : ids_(ids), lengths_(lengths) {}

  void add(uint32_t id, uint32_t length) {
    ids_[count_] = id;
    if (lengths_ != nullptr) lengths_[count_] = length;
    ++count_;
  }
  void flush() {
    if (waiting_ != 0) add(unk_, waiting_);
    waiting_ = 0;
  }
  void wait(uint32_t unk, uint32_t length, bool fuse) {
    if (!fuse) flush();
    unk_ = unk;
    waiting_ += length;
  }
  size_t count() const { return count_; }

 private:
  uint32_t* ids_;
  uint32_t* lengths_;
  size_t count_ = 0;
  uint32_t unk_ = 0;
  uint32_t waiting_ = 0;  // bytes that the unknown token will cover; 0: none is waiting
};

}  // namespace

void Symbols::Table::set(uint32_t point, uint32_t id) {
  uint16_t& page = pages_[point >> 8];
  if (page == 0) {
    page = static_cast<uint16_t>(ids_.size() / 256);
    ids_.resize(ids_.size() + 256, Vocabulary::kNoToken);
  }
  ids_[page * size_t{256} + (point & 0xff)] = id;
}

Symbols::Symbols(const Vocabulary& vocabulary, SymbolOptions options) : options_(std::move(options)) {
  if (options_.has_unk && options_.unk != Vocabulary::kNoToken && !vocabulary.has(options_.unk, kPresent))
    throw std::invalid_argument("the unknown token has an id that is not in use");
  collect_characters(vocabulary);
  collect_fallbacks(vocabulary);
  check();
  if (options_.reads_spaces_as_marks && tables_[0].find(kMark) != Vocabulary::kNoToken) {
    reads_spaces_as_marks_ = true;
    tables_[0].set(' ', tables_[0].find(kMark));
  }
  const bool has_affix = !options_.prefix.empty() || !options_.suffix.empty();
  for (uint32_t byte = 0; byte < 256; ++byte)
    plain_[byte] = options_.byte_level || byte < 0x80 ? tables_[0].find(byte) : Vocabulary::kNoToken;
  has_plain_characters_ = !options_.byte_level && !has_affix;
  is_plain_bytes_ = options_.byte_level && !has_affix && vocabulary.covers_all_bytes();
  if (options_.byte_level && !options_.has_unk) {
    const auto lacks_some = [](const Table& table) {
      for (uint32_t byte = 0; byte < 256; ++byte)
        if (table.find(byte) == Vocabulary::kNoToken) return true;
      return false;
    };
    for (const bool first : {false, true})
      for (const bool last : {false, true})
        counts_letters_ = counts_letters_ || lacks_some(table(first, last));
  }
}

void Symbols::check() const {
  if (options_.reads_spaces_as_marks &&
      (options_.byte_level || !options_.prefix.empty() || !options_.suffix.empty()))
    throw std::invalid_argument("spaces that are read as marks in a vocabulary of bytes or affixes");
  if (!options_.byte_fallback) return;
  // The library gives tokens for the bytes of the affixes and of the letters that represent bytes too.
  if (!options_.prefix.empty() || !options_.suffix.empty())
    throw std::invalid_argument("byte_fallback together with a prefix or a suffix of symbols");
  if (!options_.byte_level) return;
  for (uint32_t byte = 0; byte < 256; ++byte)
    if (tables_[0].find(byte) == Vocabulary::kNoToken)
      throw std::invalid_argument("byte_fallback in a byte-level vocabulary that lacks a byte");
}

void Symbols::collect_characters(const Vocabulary& vocabulary) {
  const std::string& prefix = options_.prefix;
  const std::string& suffix = options_.suffix;
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id, kWord)) continue;
    const std::span<const uint8_t> token = vocabulary.bytes(id);
    for (size_t kind = 0; kind < 4; ++kind) {
      const size_t before = kind & 1 ? prefix.size() : 0;
      const size_t behind = kind & 2 ? suffix.size() : 0;
      if ((kind & 1 && before == 0) || (kind & 2 && behind == 0)) continue;
      if (token.size() <= before + behind || token.size() > before + behind + 4) continue;
      if (before != 0 && !text_of(token).starts_with(prefix)) continue;
      if (behind != 0 && !text_of(token).ends_with(suffix)) continue;
      const auto middle = token.subspan(before, token.size() - before - behind);
      const TextCharacter character =
          options_.byte_level ? TextCharacter{middle[0], 1} : next_character(middle.data(), middle.size());
      if (character.size == middle.size() && character.point < kNoCharacter)
        tables_[kind].set(character.point, id);
    }
  }
}

void Symbols::collect_fallbacks(const Vocabulary& vocabulary) {
  fallbacks_.fill(Vocabulary::kNoToken);
  if (!options_.byte_fallback) return;
  for (uint32_t id = 0; id < vocabulary.size(); ++id) {
    if (!vocabulary.has(id, kWord) || vocabulary.bytes(id).size() != 6) continue;
    const std::string_view token = text_of(vocabulary.bytes(id));
    if (!token.starts_with("<0x") || token[5] != '>') continue;
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const size_t high = kDigits.find(token[3]), low = kDigits.find(token[4]);
    if (high != kDigits.npos && low != kDigits.npos) fallbacks_[16 * high + low] = id;
  }
  has_all_fallbacks_ = std::ranges::find(fallbacks_, Vocabulary::kNoToken) == fallbacks_.end();
}

size_t Symbols::write_characters(const uint8_t* word, size_t size, uint32_t* ids, uint32_t* lengths) const {
  SymbolWriter out(ids, lengths);
  for (size_t at = 0; at < size;) {
    const TextCharacter character =
        options_.byte_level ? TextCharacter{word[at], 1} : next_character(word + at, size - at);
    const bool is_last = at + character.size == size;
    const uint32_t id = table(at == 0, is_last).find(character.point);
    const uint32_t length = counts_letters_ ? letter_bytes(word[at]) : character.size;
    const std::span<const uint8_t> bytes(word + at, character.size);
    at += character.size;
    if (id != Vocabulary::kNoToken) {
      out.flush();
      out.add(id, length);
      continue;
    }
    const auto has_token = [&](uint8_t byte) { return fallbacks_[byte] != Vocabulary::kNoToken; };
    if (options_.byte_fallback && std::ranges::all_of(bytes, has_token)) {
      for (const uint8_t byte : bytes) out.add(fallbacks_[byte], 1);
    } else if (options_.has_unk) {
      if (options_.unk == Vocabulary::kNoToken)
        throw std::runtime_error("a character has no token, and the unknown token is not in the vocabulary");
      out.wait(options_.unk, length, options_.fuse_unk);
    }
  }
  out.flush();
  return out.count();
}

std::vector<uint64_t> Symbols::known_characters() const {
  std::vector<uint64_t> known(kNoCharacter / 64);
  for (uint32_t page = 0; page < kNoCharacter; page += 256) {
    if (!tables_[0].has_page(page)) continue;
    for (uint32_t point = page; point < page + 256; ++point)
      known[point / 64] |= uint64_t{tables_[0].find(point) != Vocabulary::kNoToken} << point % 64;
  }
  return known;
}

uint32_t Symbols::length(const uint8_t* word, size_t size) const {
  if (!counts_letters_) return static_cast<uint32_t>(size);
  uint32_t letters = 0;
  for (size_t i = 0; i < size; ++i) letters += letter_bytes(word[i]);
  return letters;
}

std::vector<uint32_t> Symbols::stand_ins() const {
  std::vector<uint32_t> ids;
  if (options_.has_unk && options_.unk != Vocabulary::kNoToken) ids.push_back(options_.unk);
  for (const uint32_t id : fallbacks_)
    if (id != Vocabulary::kNoToken) ids.push_back(id);
  return ids;
}

size_t Symbols::held_bytes() const {
  size_t bytes = 0;
  for (const Table& table : tables_) bytes += table.held_bytes();
  return bytes;
}

}  // namespace krill::bpe
