// The decoders of `tokenizer.json`, each exactly as Hugging Face's `tokenizers` defines it.
//
// In: tokens as strings, in order; the caller has left out what is to be skipped. Out: the text. Held in
// memory: what a decoder is made of, which never changes and is shared by threads; while it works, all tokens
// twice.
//
// Where the library panics, when Strip takes more from a token than there is, nothing is left of the token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace krill::tokenizer {

// Strings one after the other.
class TokenStrings {
 public:
  size_t size() const { return ends_.size(); }
  std::string_view operator[](size_t index) const {
    const size_t begin = index == 0 ? 0 : ends_[index - 1];
    return std::string_view(bytes_).substr(begin, ends_[index] - begin);
  }
  std::string_view joined() const { return bytes_; }

  void clear() {
    bytes_.clear();
    ends_.clear();
  }
  // A string is written to the end of `bytes()`, then ended.
  std::string& bytes() { return bytes_; }
  void end() { ends_.push_back(bytes_.size()); }
  void add(std::string_view string) {
    bytes_ += string;
    end();
  }

 private:
  std::string bytes_;
  std::vector<size_t> ends_;
};

// One step of a decoder: tokens to tokens.
class DecoderStep {
 public:
  virtual ~DecoderStep() = default;
  virtual void apply(const TokenStrings& tokens, TokenStrings& out) const = 0;
};

using DecoderStepPtr = std::shared_ptr<const DecoderStep>;

DecoderStepPtr byte_level_decoder();
DecoderStepPtr byte_fallback_decoder();
DecoderStepPtr fuse_decoder();
DecoderStepPtr replace_decoder(std::string pattern, std::string content);
// Throws std::invalid_argument if the expression is refused.
DecoderStepPtr replace_regex_decoder(std::string_view pattern, std::string content);
// Takes `content`, one character, at most `start` times from the beginning and `stop` times from the end.
DecoderStepPtr strip_decoder(std::string content, size_t start, size_t stop);
// `drops_first`: the replacement is no space in the first token, as it is with all prepend schemes but
// `never`.
DecoderStepPtr metaspace_decoder(std::string replacement, bool drops_first);
DecoderStepPtr word_piece_decoder(std::string prefix, bool cleanup);
DecoderStepPtr bpe_decoder(std::string suffix);
DecoderStepPtr ctc_decoder(std::string pad_token, std::string word_delimiter_token, bool cleanup);

class Decoder {
 public:
  // Without a decoder, tokens are joined with spaces.
  Decoder() : joins_with_spaces_(true) {}
  // The steps of a sequence, which may be empty, or a single decoder.
  explicit Decoder(std::vector<DecoderStepPtr> steps) : steps_(std::move(steps)) {}

  std::string decode(std::span<const std::string_view> tokens) const;

 private:
  std::vector<DecoderStepPtr> steps_;
  bool joins_with_spaces_ = false;
};

}  // namespace krill::tokenizer
