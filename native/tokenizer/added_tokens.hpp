// Special and other added tokens, found in text before it is cut into words.
//
// In: a document. Out: its parts, each an added token or plain text. Held in memory: the finders. As Hugging
// Face's added vocabulary: in a first pass tokens that are not `normalized`; then, over what is left and was
// normalised, the others, whose text is normalised too. Each part that a pass leaves is a text of its own for
// the next pass, and for the pre-tokenizer.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_finder.hpp"

namespace krill::tokenizer {

struct AddedToken {
  std::string text;  // normalised, if it is found in normalised text
  uint32_t id;
  bool single_word;  // only between characters that are no part of a word
  bool lstrip;       // takes the whitespace before it
  bool rstrip;       // takes the whitespace after it
  bool normalized;
};

class AddedTokens {
 public:
  struct Nowhere {
    bool operator()(size_t, size_t, uint32_t) const { return false; }
  };

  static constexpr uint32_t kNoToken = 0xffffffff;

  // A token without text throws std::invalid_argument.
  explicit AddedTokens(const std::vector<AddedToken>& tokens);

  bool has_normalized() const { return !normalized_.empty(); }

  // Calls use(begin, end, id) for each part in turn, without empty ones; plain text has the id kNoToken. The
  // plain parts don't overlap, and there are no more ids than bytes. Where is_text(begin, end, id), it is as
  // if there were no such token.
  template <class Use, class IsText = Nowhere>
  void split_written(const uint8_t* text, size_t size, Use&& use, const IsText& is_text = {}) const {
    as_written_.split(text, size, use, is_text);
  }
  template <class Use, class IsText = Nowhere>
  void split_normalized(const uint8_t* text, size_t size, Use&& use, const IsText& is_text = {}) const {
    normalized_.split(text, size, use, is_text);
  }

 private:
  class Pass {
   public:
    explicit Pass(std::vector<AddedToken> tokens);

    bool empty() const { return tokens_.empty(); }

    template <class Use, class IsText>
    void split(const uint8_t* text, size_t size, Use&& use, const IsText& is_text) const;

   private:
    struct Found {
      size_t begin;
      size_t end;
      uint32_t id;
    };

    // Puts in place of a match that is text the longest shorter token that begins there and is none; else
    // returns false.
    template <class IsText>
    bool shorten(text::TokenFinder::Match& match, const uint8_t* text, const IsText& is_text) const;
    bool fits(const text::TokenFinder::Match& match, const uint8_t* text, size_t size) const;
    Found widen(const text::TokenFinder::Match& match, const uint8_t* text, size_t size, size_t done) const;

    std::vector<AddedToken> tokens_;
    text::TokenFinder finder_;
  };

  static std::vector<AddedToken> those(const std::vector<AddedToken>& tokens, bool normalized);

  Pass as_written_;
  Pass normalized_;
};

template <class Use, class IsText>
void AddedTokens::Pass::split(const uint8_t* text, size_t size, Use&& use, const IsText& is_text) const {
  size_t done = 0;
  text::TokenFinder::Match match{};
  // The search continues after the token itself, also if it took whitespace in which another one begins.
  for (size_t from = 0; !finder_.empty() && finder_.next(text, size, from, match); from = match.end) {
    if (is_text(match.start, match.end, tokens_[match.token].id) && !shorten(match, text, is_text)) {
      match.end = match.start + 1;
      continue;
    }
    if (!fits(match, text, size)) continue;
    const Found found = widen(match, text, size, done);
    if (done < found.begin) use(done, found.begin, kNoToken);
    // Nothing is left of a token that is whitespace and was taken by the one before.
    if (found.begin < found.end) use(found.begin, found.end, found.id);
    done = found.end;
  }
  if (done < size) use(done, size, kNoToken);
}

template <class IsText>
bool AddedTokens::Pass::shorten(text::TokenFinder::Match& match, const uint8_t* text,
                                const IsText& is_text) const {
  const std::string_view found(reinterpret_cast<const char*>(text + match.start), match.end - match.start);
  size_t longest = 0;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& token = tokens_[i].text;
    if (token.size() <= longest || token.size() >= found.size() || !found.starts_with(token)) continue;
    if (is_text(match.start, match.start + token.size(), tokens_[i].id)) continue;
    longest = token.size();
    match.token = static_cast<decltype(match.token)>(i);
  }
  if (longest == 0) return false;
  match.end = match.start + longest;
  return true;
}

}  // namespace krill::tokenizer
