#include "tokenizer/vocabulary_tables.hpp"

#include <algorithm>
#include <stdexcept>

#include "bpe/vocabulary.hpp"
#include "check.hpp"
#include "tokenizer/byte_letters.hpp"

namespace krill::tokenizer {

namespace {

constexpr uint32_t kNone = TokenIndex::kNoToken;

}  // namespace

VocabularyTables::VocabularyTables(const TokenizerFile& file, bool byte_level)
    : file_(file), index_(file.tokens.size()) {
  index_tokens();
  number_added();
  write_tokens(byte_level);
  resolve_merges();
}

void VocabularyTables::index_tokens() {
  const auto count = static_cast<uint32_t>(file_.tokens.size());
  std::vector<bool> replaced(count);
  for (uint32_t entry = 0; entry < count; ++entry)
    if (const uint32_t before = index_.insert(file_.tokens, entry); before != kNone) replaced[before] = true;
  for (uint32_t entry = 0; entry < count; ++entry) {
    // In a list, a piece that occurs twice keeps both ids.
    if (replaced[entry] && !file_.is_scored) continue;
    ++entries_;
    const uint32_t id = id_of(entry);
    if (id >= kMostIds)
      throw std::invalid_argument("the token " + quoted(file_.tokens[entry]) + " has the id " +
                                  std::to_string(id) + ", which is too large");
    if (id >= by_id_.size()) by_id_.resize(id + 1, kNone);
    if (by_id_[id] != kNone)
      throw std::invalid_argument("two tokens have the id " + std::to_string(id) + ": " +
                                  quoted(file_.tokens[by_id_[id]]) + " and " + quoted(file_.tokens[entry]));
    by_id_[id] = entry;
  }
}

// Known texts keep their id, others follow the vocabulary; what the file says of ids is ignored, as in the library.
void VocabularyTables::number_added() {
  std::unordered_map<uint32_t, size_t> places;  // by id, in `added_`
  auto next = static_cast<uint32_t>(entries_);
  const auto first_added = static_cast<uint32_t>(file_.tokens.size());
  for (uint32_t place = 0; place < file_.added.size(); ++place) {
    const std::span<const uint8_t> text = file_.added[place];
    if (text.empty()) continue;
    std::optional<uint32_t> id = find(text);
    if (!id) {
      id = next++;
      expect(*id < kMostIds, "it has too many added tokens");
      if (*id >= by_id_.size()) by_id_.resize(*id + 1, kNone);
      if (by_id_[*id] == kNone)
        by_id_[*id] = first_added + place;
      else if (clash_.empty())
        clash_ = quoted(text);
    }
    added_ids_.try_emplace(as_view(text), *id);
    const auto [found, is_new] = places.try_emplace(*id, added_.size());
    const uint8_t given = file_.added_flags[place];
    if (is_new)
      added_.push_back({place, *id, given});
    else
      added_[found->second] = {
          place, *id, static_cast<uint8_t>(given | (added_[found->second].flags & kSpecialToken))};
  }
}

void VocabularyTables::write_tokens(bool byte_level) {
  const auto first_added = static_cast<uint32_t>(file_.tokens.size());
  offsets.push_back(0);
  for (const uint32_t entry : by_id_) {
    uint8_t flag = 0;
    if (entry != kNone) {
      const std::span<const uint8_t> text =
          entry < first_added ? file_.tokens[entry] : file_.added[entry - first_added];
      uint8_t* const out = tokens.room(text.size());
      const ptrdiff_t size = byte_level ? letters_to_bytes(text, out) : -1;
      if (size < 0) std::ranges::copy(text, out);
      tokens.set_end(out + (size < 0 ? text.size() : static_cast<size_t>(size)));
      const bool is_word = entry < first_added && !text.empty() && (size >= 0 || !byte_level);
      flag = static_cast<uint8_t>(bpe::kPresent | (is_word ? bpe::kWord : 0));
    }
    offsets.push_back(static_cast<int64_t>(tokens.size()));
    flags.push_back(flag);
  }
  for (const NumberedToken& token : added_)
    if ((token.flags & kSpecialToken) != 0) flags[token.id] |= bpe::kSpecial;
}

std::optional<uint32_t> VocabularyTables::find(std::span<const uint8_t> text) const {
  if (const auto found = added_ids_.find(as_view(text)); found != added_ids_.end()) return found->second;
  const uint32_t entry = index_.find(file_.tokens, text);
  return entry == kNone ? std::nullopt : std::optional(id_of(entry));
}

void VocabularyTables::resolve_merges() {
  merges = GrowingBuffer<uint32_t>(3 * file_.merges.size());
  const size_t prefix = file_.continuation.size();
  std::vector<uint8_t> joined;
  for (size_t merge = 0; merge < file_.merges.size(); ++merge) {
    const std::span<const uint8_t> both = file_.merges[merge];
    const std::span<const uint8_t> left = both.first(file_.splits[merge]);
    const std::span<const uint8_t> right = both.subspan(left.size());
    std::span<const uint8_t> made = both;
    const uint32_t left_id = merge_token(left, merge), right_id = merge_token(right, merge);
    if (prefix > 0) {
      expect(right.size() >= prefix, "a merge's second token is shorter than continuing_subword_prefix");
      joined.assign(left.begin(), left.end());
      joined.insert(joined.end(), right.begin() + static_cast<ptrdiff_t>(prefix), right.end());
      made = joined;
    }
    const uint32_t new_id = merge_token(made, merge);
    if (!is_word(left_id) || !is_word(right_id) || !is_word(new_id)) continue;
    for (const uint32_t id : {left_id, right_id, new_id}) merges.push_back(id);
  }
}

bool VocabularyTables::is_word(uint32_t id) const { return (flags[id] & bpe::kWord) != 0; }

uint32_t VocabularyTables::merge_token(std::span<const uint8_t> text, size_t merge) const {
  const uint32_t entry = index_.find(file_.tokens, text);
  if (entry != kNone) return id_of(entry);
  const std::span<const uint8_t> both = file_.merges[merge];
  const std::string left(as_view(both.first(file_.splits[merge]))), right(as_view(both.subspan(file_.splits[merge])));
  const std::string line = left + " " + right;
  throw std::invalid_argument(
      "merge " + std::to_string(merge) + " is " +
      quoted(as_bytes(line)) + ", but " + quoted(text) +
      " is not in the vocabulary");
}

}  // namespace krill::tokenizer
