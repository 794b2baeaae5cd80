#include "tokenizer/decoders.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "check.hpp"
#include "normalize/matches.hpp"
#include "normalize/points.hpp"
#include "text/char_class.hpp"
#include "text/utf8.hpp"

namespace krill::tokenizer {
namespace {

constexpr std::string_view kReplacementCharacter = "\xef\xbf\xbd";

const uint8_t* bytes_of(std::string_view text) { return reinterpret_cast<const uint8_t*>(text.data()); }

normalize::Point character(std::string_view text, size_t at) {
  return normalize::point_at(bytes_of(text), text.size(), at);
}

// Every occurrence of `pattern` as `content`; an empty pattern occurs before each character and at the end.
void append_replaced(std::string& out, std::string_view text, std::string_view pattern,
                     std::string_view content) {
  if (pattern.empty()) {
    for (size_t at = 0; at < text.size();) {
      const size_t length = character(text, at).length;
      out.append(content).append(text.substr(at, length));
      at += length;
    }
    out += content;
    return;
  }
  size_t at = 0;
  for (size_t found; (found = text.find(pattern, at)) != std::string_view::npos; at = found + pattern.size())
    out.append(text.substr(at, found - at)).append(content);
  out += text.substr(at);
}

// Bytes as text: each maximal part that is not well-formed becomes U+FFFD.
void append_lossy(std::string& out, std::string_view bytes) {
  while (!bytes.empty()) {
    const size_t good = text::utf8_prefix(bytes_of(bytes), bytes.size()).bytes;
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) return;
    out += kReplacementCharacter;
    bytes.remove_prefix(text::character_at(bytes_of(bytes), bytes.size()).length);
  }
}

// Artifacts of tokenizing English, one kind after the other.
void clean_up(std::string& text) {
  static constexpr std::pair<std::string_view, std::string_view> kArtifacts[] = {
      {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},    {" n't", "n't"},
      {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  if (text.find(' ') == std::string::npos) return;
  std::string cleaned;
  for (const auto& [artifact, meant] : kArtifacts) {
    if (text.find(artifact) == std::string::npos) continue;
    cleaned.clear();
    append_replaced(cleaned, text, artifact, meant);
    text.swap(cleaned);
  }
}

class ByteLevelStep final : public DecoderStep {
 public:
  ByteLevelStep() {
    bytes_.fill(-1);
    size_t next = 256;
    for (size_t byte = 0; byte < 256; ++byte) {
      const bool visible = (byte > 0x20 && byte < 0x7f) || (byte > 0xa0 && byte != 0xad);
      bytes_[visible ? byte : next++] = static_cast<int16_t>(byte);
    }
  }

  void apply(const TokenStrings& tokens, TokenStrings& out) const override {
    std::string bytes;
    for (size_t token = 0; token < tokens.size(); ++token) append(bytes, tokens[token]);
    append_lossy(out.bytes(), bytes);
    out.end();
  }

 private:
  // A token with a character that stands for no byte is taken as it is.
  void append(std::string& bytes, std::string_view token) const {
    const size_t begin = bytes.size();
    for (size_t at = 0; at < token.size();) {
      const normalize::Point point = character(token, at);
      if (point.value >= bytes_.size() || bytes_[point.value] < 0) {
        bytes.resize(begin);
        bytes += token;
        return;
      }
      bytes.push_back(static_cast<char>(bytes_[point.value]));
      at += point.length;
    }
  }

  std::array<int16_t, 512> bytes_;
};

class ByteFallbackStep final : public DecoderStep {
 public:
  void apply(const TokenStrings& tokens, TokenStrings& out) const override {
    std::string run;
    for (size_t token = 0; token < tokens.size(); ++token) {
      if (const std::optional<uint8_t> byte = byte_in(tokens[token])) {
        run.push_back(static_cast<char>(*byte));
        continue;
      }
      add_run(run, out);
      out.add(tokens[token]);
    }
    add_run(run, out);
  }

 private:
  static void add_run(std::string& run, TokenStrings& out) {
    if (run.empty()) return;
    if (text::utf8_prefix(bytes_of(run), run.size()).bytes == run.size()) {
      out.add(run);
    } else {
      for (size_t byte = 0; byte < run.size(); ++byte) out.add(kReplacementCharacter);
    }
    run.clear();
  }

  static std::optional<uint32_t> digit(char letter) {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
    return std::nullopt;
  }

  // <0x41>; the library also reads <0x+1>.
  static std::optional<uint8_t> byte_in(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || token[5] != '>') return std::nullopt;
    const std::optional<uint32_t> high = token[3] == '+' ? 0 : digit(token[3]), low = digit(token[4]);
    if (!high || !low) return std::nullopt;
    return static_cast<uint8_t>(*high * 16 + *low);
  }
};

class FuseStep final : public DecoderStep {
 public:
  void apply(const TokenStrings& tokens, TokenStrings& out) const override { out.add(tokens.joined()); }
};

// What a step does with each token by itself.
class PerToken : public DecoderStep {
 public:
  void apply(const TokenStrings& tokens, TokenStrings& out) const final {
    for (size_t token = 0; token < tokens.size(); ++token) {
      append(out.bytes(), tokens[token], token, token + 1 == tokens.size());
      out.end();
    }
  }

 protected:
  virtual void append(std::string& out, std::string_view token, size_t position, bool last) const = 0;
};

class ReplaceStep final : public PerToken {
 public:
  ReplaceStep(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

 private:
  void append(std::string& out, std::string_view token, size_t, bool) const override {
    if (!token.empty()) append_replaced(out, token, pattern_, content_);
  }

  std::string pattern_, content_;
};

class ReplaceRegexStep final : public PerToken {
 public:
  ReplaceRegexStep(std::string_view pattern, std::string content)
      : pattern_(pattern), content_(std::move(content)) {}

 private:
  void append(std::string& out, std::string_view token, size_t, bool) const override {
    if (token.empty()) return;
    size_t kept = 0;
    normalize::for_each_match(pattern_, bytes_of(token), token.size(), [&](size_t begin, size_t end) {
      out.append(token.substr(kept, begin - kept)).append(content_);
      kept = end;
    });
    out += token.substr(kept);
  }

  regex::Regex pattern_;
  std::string content_;
};

class StripStep final : public PerToken {
 public:
  StripStep(std::string content, size_t start, size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {
    expect(!content_.empty() && character(content_, 0).length == content_.size(),
           "what decoder `Strip` strips must be one character");
  }

 private:
  void append(std::string& out, std::string_view token, size_t, bool) const override {
    size_t begin = 0, end = token.size();
    for (size_t taken = 0; taken < start_ && token.substr(begin).starts_with(content_); ++taken)
      begin += content_.size();
    for (size_t taken = 0; taken < stop_ && token.substr(0, end).ends_with(content_); ++taken)
      end -= content_.size();
    if (begin < end) out += token.substr(begin, end - begin);
  }

  std::string content_;
  size_t start_, stop_;
};

class MetaspaceStep final : public PerToken {
 public:
  MetaspaceStep(std::string replacement, bool drops_first)
      : replacement_(std::move(replacement)), drops_first_(drops_first) {
    expect(!replacement_.empty() && character(replacement_, 0).length == replacement_.size(),
           "the replacement of decoder `Metaspace` must be one character");
  }

 private:
  void append(std::string& out, std::string_view token, size_t position, bool) const override {
    append_replaced(out, token, replacement_, position == 0 && drops_first_ ? "" : " ");
  }

  std::string replacement_;
  bool drops_first_;
};

class WordPieceStep final : public PerToken {
 public:
  WordPieceStep(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}

 private:
  void append(std::string& out, std::string_view token, size_t position, bool) const override {
    std::string text;
    if (position > 0) {
      if (token.starts_with(prefix_))
        token.remove_prefix(prefix_.size());
      else
        text = " ";
    }
    text += token;
    if (cleanup_) clean_up(text);
    out += text;
  }

  std::string prefix_;
  bool cleanup_;
};

class BpeStep final : public PerToken {
 public:
  explicit BpeStep(std::string suffix) : suffix_(std::move(suffix)) {}

 private:
  void append(std::string& out, std::string_view token, size_t, bool last) const override {
    append_replaced(out, token, suffix_, last ? "" : " ");
  }

  std::string suffix_;
};

class CtcStep final : public DecoderStep {
 public:
  CtcStep(std::string pad_token, std::string word_delimiter_token, bool cleanup)
      : pad_token_(std::move(pad_token)), delimiter_(std::move(word_delimiter_token)), cleanup_(cleanup) {}

  void apply(const TokenStrings& tokens, TokenStrings& out) const override {
    std::string text, delimited;
    for (size_t token = 0; token < tokens.size(); ++token) {
      if (token > 0 && tokens[token] == tokens[token - 1]) continue;
      text.clear();
      append_replaced(text, tokens[token], pad_token_, "");
      if (cleanup_) {
        clean_up(text);
        delimited.clear();
        append_replaced(delimited, text, delimiter_, " ");
        text.swap(delimited);
      }
      if (!text.empty()) out.add(text);
    }
  }

 private:
  std::string pad_token_, delimiter_;
  bool cleanup_;
};

}  // namespace

DecoderStepPtr byte_level_decoder() { return std::make_shared<const ByteLevelStep>(); }
DecoderStepPtr byte_fallback_decoder() { return std::make_shared<const ByteFallbackStep>(); }
DecoderStepPtr fuse_decoder() { return std::make_shared<const FuseStep>(); }
DecoderStepPtr replace_decoder(std::string pattern, std::string content) {
  return std::make_shared<const ReplaceStep>(std::move(pattern), std::move(content));
}
DecoderStepPtr replace_regex_decoder(std::string_view pattern, std::string content) {
  return std::make_shared<const ReplaceRegexStep>(pattern, std::move(content));
}
DecoderStepPtr strip_decoder(std::string content, size_t start, size_t stop) {
  return std::make_shared<const StripStep>(std::move(content), start, stop);
}
DecoderStepPtr metaspace_decoder(std::string replacement, bool drops_first) {
  return std::make_shared<const MetaspaceStep>(std::move(replacement), drops_first);
}
DecoderStepPtr word_piece_decoder(std::string prefix, bool cleanup) {
  return std::make_shared<const WordPieceStep>(std::move(prefix), cleanup);
}
DecoderStepPtr bpe_decoder(std::string suffix) { return std::make_shared<const BpeStep>(std::move(suffix)); }
DecoderStepPtr ctc_decoder(std::string pad_token, std::string word_delimiter_token, bool cleanup) {
  return std::make_shared<const CtcStep>(std::move(pad_token), std::move(word_delimiter_token), cleanup);
}

std::string Decoder::decode(std::span<const std::string_view> tokens) const {
  if (joins_with_spaces_) {
    std::string text;
    for (size_t token = 0; token < tokens.size(); ++token)
      text.append(token > 0 ? " " : "").append(tokens[token]);
    return text;
  }
  TokenStrings present, next;
  for (const std::string_view token : tokens) present.add(token);
  for (const DecoderStepPtr& step : steps_) {
    next.clear();
    step->apply(present, next);
    std::swap(present, next);
  }
  return std::move(present.bytes());
}

}  // namespace krill::tokenizer
