#include "tokenizer/added_tokens.hpp"

#include <utility>

#include "tokenizer/characters.hpp"

namespace krill::tokenizer {

AddedTokens::AddedTokens(const std::vector<AddedToken>& tokens)
    : as_written_(those(tokens, false)), normalized_(those(tokens, true)) {}

std::vector<AddedToken> AddedTokens::those(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<AddedToken> some;
  for (const AddedToken& token : tokens)
    if (token.normalized == normalized) some.push_back(token);
  return some;
}

AddedTokens::Pass::Pass(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), finder_([this] {
        std::vector<std::string> texts;
        for (const AddedToken& token : tokens_) texts.push_back(token.text);
        return texts;
      }()) {}

bool AddedTokens::Pass::fits(const text::TokenFinder::Match& match, const uint8_t* text, size_t size) const {
  return !tokens_[match.token].single_word ||
         (!ends_with_word_character(text, match.start) &&
          !begins_with_word_character(text + match.end, size - match.end));
}

AddedTokens::Pass::Found AddedTokens::Pass::widen(const text::TokenFinder::Match& match, const uint8_t* text,
                                                  size_t size, size_t done) const {
  const AddedToken& token = tokens_[match.token];
  Found found{match.start, match.end, token.id};
  if (token.rstrip) found.end += whitespace_at_begin(text + match.end, size - match.end);
  if (token.lstrip) {
    // Whitespace that an earlier token took is not taken twice.
    if (done < match.start) found.begin -= whitespace_at_end(text + done, match.start - done);
    found.begin = std::min(std::max(found.begin, done), found.end);
  }
  return found;
}

}  // namespace krill::tokenizer
