#include "corpus/json_outline.hpp"

namespace krill::corpus {

void JsonOutline::feed(std::string_view text) {
  for (const char byte : text) {
    if (!complete_) return;
    if (part_ != nullptr) ++part_->bytes;
    if (in_string_) {
      if (escaped_)
        escaped_ = false;
      else if (byte == '\\')
        escaped_ = true;
      else if (byte == '"')
        in_string_ = false;
      if (in_string_ && part_ != nullptr) ++part_->string_bytes;
      if (in_string_ && open_.size() <= 2 && string_.size() < kLongestKey) string_ += byte;
    } else if (byte == '"') {
      in_string_ = true;
      if (part_ != nullptr) ++part_->strings;
      string_.clear();
      empty_ = false;
    } else {
      structural(byte);
    }
    if (left_out_ == 0) text_ += byte;
    if (text_.size() > most_bytes_) complete_ = false;
  }
}

void JsonOutline::structural(char byte) {
  switch (byte) {
    case '{':
    case '[': return open(byte);
    case '}':
    case ']': return close();
    case ':':
      if (!open_.empty() && open_.size() <= 2 && open_.back() == '{') keys_[open_.size()] = string_;
      return;
    case ',':
      if (part_ != nullptr && open_.size() == left_out_) ++part_->values;
      return;
    case ' ':
    case '\t':
    case '\n':
    case '\r': return;
    default: empty_ = false;
  }
}

void JsonOutline::open(char byte) {
  empty_ = false;
  if (open_.size() >= kDeepest) {
    complete_ = false;
    return;
  }
  Part* part = part_ == nullptr ? part_here() : nullptr;
  open_.push_back(byte);
  if (part == nullptr) return;
  part_ = part;
  left_out_ = open_.size();
  empty_ = true;
  text_ += byte;
}

void JsonOutline::close() {
  if (part_ != nullptr && open_.size() == left_out_) {
    if (!empty_) ++part_->values;
    part_ = nullptr;
    left_out_ = 0;
  }
  empty_ = false;
  if (!open_.empty()) open_.pop_back();
}

JsonOutline::Part* JsonOutline::part_here() {
  if (open_.size() == 1 && keys_[1] == "added_tokens") return &added_tokens;
  if (open_.size() != 2 || open_[1] != '{' || keys_[1] != "model") return nullptr;
  if (keys_[2] == "vocab") return &vocabulary;
  return keys_[2] == "merges" ? &merges : nullptr;
}

}  // namespace krill::corpus
