// Normalizers that put strings into the text, and sequences: Prepend, Replace, Sequence.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "normalize/matches.hpp"
#include "normalize/normalizer.hpp"
#include "text/byte_scan.hpp"

namespace krill::normalize {
namespace {

const uint8_t* bytes_of(const std::string& text) { return reinterpret_cast<const uint8_t*>(text.data()); }

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

  bool leaves(const uint8_t*, size_t size) const override { return size == 0; }

  // The prefix belongs to the first character.
  void apply(Text& text) const override {
    if (text.size() == 0) return;
    GrowingBuffer<uint8_t>& bytes = text.next_bytes();
    bytes.truncate(0);
    bytes.append(bytes_of(prefix_), prefix_.size());
    bytes.append(text.data(), text.size());
    if (text.tracked()) {
      const Origin* old = text.present_origins();
      GrowingBuffer<Origin>& origins = text.next_origins();
      origins.truncate(0);
      origins.append_repeated(old[0], prefix_.size());
      origins.append(old, text.size());
      if (prefix_.empty()) {
        const size_t first = point_at(text.data(), text.size(), 0).length;
        for (size_t at = 0; at < first; ++at) origins[at] = {0, 0};
      }
    }
    text.flip();
  }

 private:
  std::string prefix_;
};

// Replace with a string to look for.
class ReplaceString final : public Normalizer {
 public:
  ReplaceString(std::string pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}

  bool leaves(const uint8_t* text, size_t size) const override {
    if (pattern_.empty()) return size == 0;
    return text::find_bytes(text, text + size, bytes_of(pattern_), pattern_.size()) == text + size;
  }

  void apply(Text& text) const override {
    if (text.size() == 0) return;
    if (pattern_.empty()) return between_all(text);
    if (pattern_.size() == 1 && content_.size() <= kShort && !content_.empty() && !text.tracked())
      return replace_byte(text);
    const uint8_t* begin = text.data();
    const uint8_t* end = begin + text.size();
    Rewriter rewriter(text);
    for (const uint8_t* at = begin;; at += pattern_.size()) {
      at = text::find_bytes(at, end, bytes_of(pattern_), pattern_.size());
      if (at == end) break;
      const auto place = static_cast<size_t>(at - begin);
      rewriter.replace(place, place + pattern_.size(), bytes_of(content_), content_.size());
    }
    rewriter.finish();
  }

 private:
  static constexpr size_t kShort = 4;
  static constexpr size_t kBlock = 16;

  // The expression that an empty string is matches before each character and at the end.
  void between_all(Text& text) const {
    Rewriter rewriter(text);
    for (size_t at = 0;; at += point_at(text.data(), text.size(), at).length) {
      rewriter.replace(at, at, bytes_of(content_), content_.size());
      if (at == text.size()) break;
    }
    rewriter.finish();
  }

  // A space that becomes U+2581, in all tokenizers of SentencePiece's style: blocks are copied whole, and
  // each match overwrites what was copied too much.
  void replace_byte(Text& text) const {
    const auto byte = static_cast<uint8_t>(pattern_[0]);
    const uint8_t* at = text.data();
    const uint8_t* end = at + text.size();
    if (text::find_bytes(at, end, &byte, 1) == end) return;
    uint8_t content[kShort] = {};
    std::memcpy(content, content_.data(), content_.size());
    const size_t longer = content_.size();
    GrowingBuffer<uint8_t>& bytes = text.next_bytes();
    bytes.truncate(0);
    // Room for sixteen times the content, and for what a copy of a block writes beyond.
    constexpr size_t kRoom = kBlock * kShort + 2 * kBlock;
    uint8_t* out = bytes.room(text.size() + kRoom);
    size_t left = text.size() + kRoom;
    uint8_t rest[3 * kBlock] = {};
    // A copy may begin anywhere in a block, so one more has to be there to be read.
    const uint8_t* limit = text.data() + text.readable();
    for (; at < end; at += kBlock) {
      if (left < kRoom) {
        bytes.set_end(out);
        left = static_cast<size_t>(end - at) + kRoom;
        out = bytes.room(left);
      }
      if (limit - at < static_cast<ptrdiff_t>(2 * kBlock)) {
        std::memcpy(rest, at, static_cast<size_t>(end - at));
        end = rest + (end - at);
        at = rest;
        limit = rest + sizeof rest;
      }
      const size_t size = std::min(kBlock, static_cast<size_t>(end - at));
      const uint8_t* const first = out;
      text::Matches found = text::Bytes16::load(at).equal(byte).matches();
      size_t done = 0;
      for (; found.any() && found.first() < size; found.drop_first()) {
        const size_t place = found.first();
        std::memcpy(out, at + done, kBlock);
        out += place - done;
        std::memcpy(out, content, kShort);
        out += longer;
        done = place + 1;
      }
      std::memcpy(out, at + done, kBlock);
      out += size - done;
      left -= static_cast<size_t>(out - first);
    }
    bytes.set_end(out);
    text.flip();
  }

  std::string pattern_, content_;
};

class ReplaceRegex final : public Normalizer {
 public:
  ReplaceRegex(std::string_view pattern, std::string content)
      : pattern_(pattern), content_(std::move(content)) {}

  bool leaves(const uint8_t* text, size_t size) const override {
    regex::Match match{};
    return size == 0 || !pattern_.find(text, size, 0, match);
  }

  void apply(Text& text) const override {
    if (text.size() == 0) return;
    Rewriter rewriter(text);
    for_each_match(pattern_, text.data(), text.size(), [&](size_t begin, size_t end) {
      // Most whitespace is a single space, and stays one.
      if (!text.tracked() && is_content(text.data() + begin, end - begin)) return;
      rewriter.replace(begin, end, bytes_of(content_), content_.size());
    });
    rewriter.finish();
  }

 private:
  bool is_content(const uint8_t* match, size_t size) const {
    return size == content_.size() && std::memcmp(match, content_.data(), size) == 0;
  }

  regex::Regex pattern_;
  std::string content_;
};

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}

  bool leaves(const uint8_t* text, size_t size) const override {
    for (const NormalizerPtr& step : steps_) {
      if (!step->leaves(text, size)) return false;
    }
    return true;
  }

  void apply(Text& text) const override {
    for (const NormalizerPtr& step : steps_) step->apply(text);
  }

 private:
  std::vector<NormalizerPtr> steps_;
};

}  // namespace

NormalizerPtr make_prepend(std::string prefix) { return std::make_shared<const Prepend>(std::move(prefix)); }
NormalizerPtr make_replace(std::string pattern, std::string content) {
  return std::make_shared<const ReplaceString>(std::move(pattern), std::move(content));
}
NormalizerPtr make_replace_regex(std::string_view pattern, std::string content) {
  return std::make_shared<const ReplaceRegex>(pattern, std::move(content));
}
NormalizerPtr make_sequence(std::vector<NormalizerPtr> steps) {
  if (steps.size() == 1) return std::move(steps[0]);
  return std::make_shared<const Sequence>(std::move(steps));
}

}  // namespace krill::normalize
