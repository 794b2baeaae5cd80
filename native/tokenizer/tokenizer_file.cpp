#include "tokenizer/tokenizer_file.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "check.hpp"
#include "tokenizer/json_number.hpp"

namespace krill::tokenizer {

namespace {

constexpr size_t kDeepest = 128;    // as in the library
constexpr size_t kLongestKey = 32;  // of keys that matter

// The fields of an added token; the flags of the last five are those of AddedFlag, in this order.
constexpr std::array<std::string_view, 7> kFields = {"id",     "content",    "single_word", "lstrip",
                                                     "rstrip", "normalized", "special"};
constexpr unsigned kIdField = 0, kContentField = 1, kFirstFlag = 2, kOtherField = 7;
constexpr unsigned kAllFields = (1u << kFields.size()) - 1;

// An id, or a number that is none.
uint64_t parse_id(std::string_view text) {
  const JsonNumber number = parse_json_number(text);
  return number.kind == JsonNumber::Kind::kInteger ? number.integer : std::numeric_limits<uint64_t>::max();
}

}  // namespace

std::string quoted(std::span<const uint8_t> text) {
  constexpr size_t kMost = 60;
  if (text.size() <= kMost) return "`" + std::string(as_view(text)) + "`";
  size_t size = kMost;
  while (size > 0 && (text[size] & 0xc0) == 0x80) --size;
  return "`" + std::string(as_view(text.first(size))) + "...`";
}

void TokenizerFile::finish() {
  if (lexer_.is_full()) throw std::invalid_argument("its sections are too large");
  lexer_.finish();
  expect(part_ == Part::kRest && open_.empty(), "its JSON ends too early");
}

void TokenizerFile::punctuation(char character) {
  switch (part_) {
    case Part::kRest: return rest_punctuation(character);
    case Part::kVocabulary: return vocabulary_punctuation(character);
    case Part::kScores: return scores_punctuation(character);
    case Part::kMerges: return merges_punctuation(character);
    case Part::kAdded: return added_punctuation(character);
  }
}

void TokenizerFile::rest_punctuation(char character) {
  switch (character) {
    case '{':
    case '[': {
      const Part part = part_here(character);
      if (part != Part::kRest) return begin_part(part);
      expect(open_.size() < kDeepest, "its JSON is nested too deep");
      open_.push_back(character);
      break;
    }
    case '}':
    case ']':
      if (!open_.empty()) open_.pop_back();
      break;
    case ':':
      if (open_.size() < keys_.size() && !open_.empty() && open_.back() == '{') key_begins();
      after_colon_ = true;
      return;
    default: break;
  }
  after_colon_ = false;
}

// The value of a key comes: what an earlier one of the same name had is forgotten.
void TokenizerFile::key_begins() {
  keys_[open_.size()] = last_string_;
  if (open_.size() == 1) {
    if (last_string_ == "model") {
      clear_vocabulary();
      clear_merges();
      continuation.clear();
    } else if (last_string_ == "added_tokens") {
      added.clear();
      added_flags.clear();
    }
  } else if (keys_[1] == "model" && open_[0] == '{') {
    if (last_string_ == "vocab") clear_vocabulary();
    if (last_string_ == "merges") clear_merges();
    if (last_string_ == "continuing_subword_prefix") continuation.clear();
  }
}

TokenizerFile::Part TokenizerFile::part_here(char bracket) const {
  if (!after_colon_ || open_.empty() || open_[0] != '{') return Part::kRest;
  if (open_.size() == 1) return bracket == '[' && keys_[1] == "added_tokens" ? Part::kAdded : Part::kRest;
  if (open_ != "{{" || keys_[1] != "model") return Part::kRest;
  if (keys_[2] == "vocab") return bracket == '{' ? Part::kVocabulary : Part::kScores;
  return bracket == '[' && keys_[2] == "merges" ? Part::kMerges : Part::kRest;
}

void TokenizerFile::begin_part(Part part) {
  part_ = part;
  step_ = Step::kFirst;
  is_scored = part == Part::kScores || (is_scored && part != Part::kVocabulary);
  lexer_.pause();
}

void TokenizerFile::clear_vocabulary() {
  tokens.clear();
  ids = {};
  scores = {};
  is_scored = false;
}

void TokenizerFile::clear_merges() {
  merges.clear();
  splits = {};
  merges_written_ = Merges::kUnknown;
}

void TokenizerFile::string(std::span<const uint8_t> text) {
  switch (part_) {
    case Part::kRest:
      if (after_colon_ && open_ == "{{" && keys_[1] == "model" && keys_[2] == "continuing_subword_prefix")
        continuation = as_view(text);
      last_string_ = as_view(text.first(std::min(text.size(), kLongestKey)));
      after_colon_ = false;
      return;
    case Part::kVocabulary:
      if (step_ == Step::kValue)
        throw std::invalid_argument("the token " + quoted(tokens[tokens.size() - 1]) + " has the id " +
                                    quoted(text));
      if (step_ != Step::kFirst && step_ != Step::kNext) fail();
      tokens.add(text);
      step_ = Step::kColon;
      return;
    case Part::kScores:
      if (step_ != Step::kLeft) fail();
      tokens.add(text);
      step_ = Step::kMiddle;
      return;
    case Part::kMerges:
      if (step_ == Step::kFirst || step_ == Step::kNext) return merge_line(text);
      if (step_ != Step::kLeft && step_ != Step::kRight) fail();
      merges.append(text);
      if (step_ == Step::kLeft)
        splits.push_back(static_cast<uint32_t>(text.size()));
      else
        merges.end();
      step_ = step_ == Step::kLeft ? Step::kMiddle : Step::kEnd;
      return;
    case Part::kAdded: return added_string(text);
  }
}

void TokenizerFile::literal(std::string_view text) {
  switch (part_) {
    case Part::kRest: after_colon_ = false; return;
    case Part::kVocabulary: {
      if (step_ != Step::kValue) fail();
      const uint64_t id = parse_id(text);
      if (id >= std::numeric_limits<uint32_t>::max())
        throw std::invalid_argument("the token " + quoted(tokens[tokens.size() - 1]) + " has the id " +
                                    quoted(as_bytes(text)));
      ids.push_back(static_cast<uint32_t>(id));
      step_ = Step::kComma;
      return;
    }
    case Part::kScores: {
      const JsonNumber number = parse_json_number(text);
      if (step_ != Step::kRight) fail();
      if (number.kind == JsonNumber::Kind::kInvalid || number.kind == JsonNumber::Kind::kTooLarge)
        throw std::invalid_argument("the piece " + quoted(tokens[tokens.size() - 1]) + " has the score " +
                                    quoted(as_bytes(text)));
      scores.push_back(number.value);
      step_ = Step::kEnd;
      return;
    }
    case Part::kMerges: fail();
    case Part::kAdded: return added_literal(text);
  }
}

bool TokenizerFile::follows(char character, char expected, Step now, Step next) {
  if (character != expected || step_ != now) return false;
  step_ = next;
  return true;
}

// Whether a list or object of the file goes on with a comma or ends; if it ends, so does the part.
bool TokenizerFile::ends_list(char character, char bracket) {
  if (follows(character, ',', Step::kComma, Step::kNext)) return true;
  if (character != bracket || (step_ != Step::kFirst && step_ != Step::kComma)) return false;
  part_ = Part::kRest;
  after_colon_ = false;
  lexer_.resume();
  return true;
}

void TokenizerFile::vocabulary_punctuation(char character) {
  if (!ends_list(character, '}') && !follows(character, ':', Step::kColon, Step::kValue)) fail();
}

void TokenizerFile::scores_punctuation(char character) {
  if (ends_list(character, ']')) return;
  if (follows(character, '[', Step::kFirst, Step::kLeft) || follows(character, '[', Step::kNext, Step::kLeft))
    return;
  if (follows(character, ',', Step::kMiddle, Step::kRight)) return;
  if (!follows(character, ']', Step::kEnd, Step::kComma)) fail();
}

void TokenizerFile::merges_punctuation(char character) {
  if (ends_list(character, ']')) return;
  if (follows(character, '[', Step::kFirst, Step::kLeft) || follows(character, '[', Step::kNext, Step::kLeft))
    return check_merges(Merges::kPairs);
  if (follows(character, ',', Step::kMiddle, Step::kRight)) return;
  if (!follows(character, ']', Step::kEnd, Step::kComma)) fail();
}

void TokenizerFile::check_merges(Merges written) {
  expect(merges_written_ == Merges::kUnknown || merges_written_ == written,
         "its merges are written in more than one way");
  merges_written_ = written;
}

void TokenizerFile::merge_line(std::span<const uint8_t> text) {
  check_merges(Merges::kLines);
  step_ = Step::kComma;
  if (as_view(text).starts_with("#version")) return;
  const size_t space = as_view(text).find(' ');
  if (space == std::string_view::npos || as_view(text).find(' ', space + 1) != std::string_view::npos)
    throw std::invalid_argument("a merge is not two tokens: " + quoted(text));
  merges.append(text.first(space));
  merges.append(text.subspan(space + 1));
  merges.end();
  splits.push_back(static_cast<uint32_t>(space));
}

void TokenizerFile::added_punctuation(char character) {
  if (nested_ > 0) {
    if (character == '{' || character == '[') ++nested_;
    if (character == '}' || character == ']') --nested_;
    expect(nested_ < kDeepest, "its JSON is nested too deep");
    if (nested_ == 0) step_ = Step::kEnd;
    return;
  }
  if (ends_list(character, ']')) return;
  if (follows(character, '{', Step::kFirst, Step::kLeft) || follows(character, '{', Step::kNext, Step::kLeft))
    return begin_added();
  if (follows(character, ':', Step::kColon, Step::kValue) ||
      follows(character, ',', Step::kEnd, Step::kMiddle))
    return;
  if (character == '}' && (step_ == Step::kEnd || step_ == Step::kLeft)) return end_added();
  // A list or an object is no value of the fields that are known; in others it is passed over.
  if ((character != '{' && character != '[') || step_ != Step::kValue || field_ != kOtherField) fail();
  nested_ = 1;
}

void TokenizerFile::begin_added() { fields_ = flags_ = 0; }

void TokenizerFile::end_added() {
  if (fields_ != kAllFields) fail();
  added_flags.push_back(flags_);
  step_ = Step::kComma;
}

void TokenizerFile::added_string(std::span<const uint8_t> text) {
  if (nested_ > 0) return;
  if (step_ == Step::kLeft || step_ == Step::kMiddle) {
    field_ = static_cast<unsigned>(std::ranges::find(kFields, as_view(text)) - kFields.begin());
    step_ = Step::kColon;
    return;
  }
  if (step_ != Step::kValue || (field_ != kContentField && field_ != kOtherField)) fail();
  if (field_ == kContentField) {
    set_field(field_);
    added.add(text);
  }
  step_ = Step::kEnd;
}

void TokenizerFile::added_literal(std::string_view text) {
  if (nested_ > 0) return;
  if (step_ != Step::kValue || field_ == kContentField) fail();
  const bool is_true = text == "true", is_false = text == "false";
  if (field_ == kIdField) {
    if (parse_id(text) > std::numeric_limits<uint32_t>::max()) fail();
    set_field(field_);
  } else if (field_ != kOtherField) {
    if (!is_true && !is_false) fail();
    set_field(field_);
    if (is_true) flags_ |= static_cast<uint8_t>(1u << (field_ - kFirstFlag));
  } else if (!is_true && !is_false && text != "null" &&
             parse_json_number(text).kind == JsonNumber::Kind::kInvalid) {
    fail();
  }
  step_ = Step::kEnd;
}

// A field may be there once.
void TokenizerFile::set_field(unsigned field) {
  if ((fields_ >> field & 1) != 0) fail();
  fields_ |= 1u << field;
}

void TokenizerFile::fail() const {
  switch (part_) {
    case Part::kVocabulary: throw std::invalid_argument("its vocabulary is not an object of tokens and ids");
    case Part::kScores: throw std::invalid_argument("its vocabulary is not a list of pieces and scores");
    case Part::kMerges: throw std::invalid_argument("its merges are not pairs");
    default: throw std::invalid_argument("its added tokens are not as the library writes them");
  }
}

}  // namespace krill::tokenizer
