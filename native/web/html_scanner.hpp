// The scanner behind `scan_page`; only to be included by html_tags.hpp.
#pragma once

namespace krill::web {

inline bool is_letter(char byte) { return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z'); }

inline bool is_space(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\t' || byte == '\r' || byte == '\f';
}

// What a name in a tag ends at: a space, `/` or `>`; that of an attribute also at `=`.
enum NameEnd : uint8_t { kEndsTagName = 1, kEndsAttributeName = 2 };
inline constexpr std::array<uint8_t, 256> kNameEnds = [] {
  std::array<uint8_t, 256> ends{};
  for (const char byte : {' ', '\n', '\t', '\r', '\f', '/', '>'})
    ends[static_cast<uint8_t>(byte)] = kEndsTagName | kEndsAttributeName;
  ends[static_cast<uint8_t>('=')] = kEndsAttributeName;
  return ends;
}();

class PageCursor {
 public:
  explicit PageCursor(std::string_view page) : page_(page) {}

  bool done() const { return at_ >= page_.size(); }
  size_t at() const { return at_; }
  std::string_view from(size_t start) const { return page_.substr(start, at_ - start); }

  // To the next `<` that begins a tag, a comment or the like.
  void skip_text() {
    while (true) {
      at_ = page_.find('<', at_);
      if (at_ == page_.npos) {
        at_ = page_.size();
        return;
      }
      const char next = peek(1);
      if (is_letter(next) || next == '!' || next == '?' || (next == '/' && at_ + 2 < page_.size())) return;
      ++at_;
    }
  }

  // Whether a comment, a doctype or the like stands here; it is skipped.
  bool skip_comment() {
    if (starts_with("<!--")) {
      at_ += 4;
      if (peek(0) == '>') {
        ++at_;
      } else if (peek(0) == '-' && peek(1) == '>') {
        at_ += 2;
      } else {
        skip_comment_text();
      }
      return true;
    }
    const char next = peek(1);
    if (next == '!' || next == '?' || (next == '/' && !is_letter(peek(2)))) {
      skip_behind('>');
      return true;
    }
    return false;
  }

  // The tag that stands here; false if the page ends inside of it.
  bool read_tag(Tag& tag) {
    tag.end = peek(1) == '/';
    at_ += tag.end ? 2 : 1;
    const size_t start = at_;
    skip_name(kEndsTagName);
    tag.name = tag_name(from(start));
    const size_t name_end = at_;
    tag.attributes = 0;
    tag.self_closing = false;
    while (!done()) {
      const char byte = page_[at_];
      if (byte == '>') {
        tag.attribute_bytes = at_ - name_end;
        ++at_;
        return true;
      }
      if (is_space(byte) || byte == '/') {
        tag.self_closing = byte == '/' && peek(1) == '>';
        ++at_;
      } else {
        ++tag.attributes;
        skip_attribute();
      }
    }
    return false;
  }

  // To the end tag of a raw element; its content is what was passed.
  void skip_raw(TagName name) {
    while (true) {
      at_ = page_.find("</", at_);
      if (at_ == page_.npos) {
        at_ = page_.size();
        return;
      }
      size_t end = at_ + 2;
      while (end < page_.size() && is_letter(page_[end])) ++end;
      const bool over =
          end < page_.size() && (is_space(page_[end]) || page_[end] == '/' || page_[end] == '>');
      if (over && tag_name(page_.substr(at_ + 2, end - at_ - 2)).key == name.key) return;
      at_ = end;
    }
  }

 private:
  char peek(size_t ahead) const { return at_ + ahead < page_.size() ? page_[at_ + ahead] : '\0'; }
  bool starts_with(std::string_view mark) const { return page_.substr(at_, mark.size()) == mark; }

  void skip_name(NameEnd end) {
    while (!done() && !(kNameEnds[static_cast<uint8_t>(page_[at_])] & end)) ++at_;
  }

  void skip_behind(char mark) {
    at_ = page_.find(mark, at_);
    at_ = at_ == page_.npos ? page_.size() : at_ + 1;
  }

  // To behind `-->` or `--!>`.
  void skip_comment_text() {
    while (true) {
      at_ = page_.find("--", at_);
      if (at_ == page_.npos) {
        at_ = page_.size();
        return;
      }
      const size_t mark = peek(2) == '!' ? 3 : 2;
      if (peek(mark) == '>') {
        at_ += mark + 1;
        return;
      }
      ++at_;
    }
  }

  void skip_attribute() {
    ++at_;  // a name may begin with `=`
    skip_name(kEndsAttributeName);
    size_t next = at_;
    while (next < page_.size() && is_space(page_[next])) ++next;
    if (next >= page_.size() || page_[next] != '=') return;
    at_ = next + 1;
    while (!done() && is_space(page_[at_])) ++at_;
    if (done() || page_[at_] == '>') return;
    const char quote = page_[at_];
    if (quote == '"' || quote == '\'') {
      ++at_;
      skip_behind(quote);
      return;
    }
    while (!done() && !is_space(page_[at_]) && page_[at_] != '>') ++at_;
  }

  std::string_view page_;
  size_t at_ = 0;
};

template <class Sink>
void scan_page(std::string_view page, Sink& sink) {
  PageCursor cursor(page);
  Tag tag;
  while (!cursor.done()) {
    const size_t start = cursor.at();
    cursor.skip_text();
    if (cursor.at() > start) sink.text(cursor.from(start));
    if (cursor.done()) return;
    if (cursor.skip_comment()) {
      if (!sink.comment()) return;
      continue;
    }
    if (!cursor.read_tag(tag) || !sink.tag(tag)) return;
    if (!tag.end && (tag.name.flags & kRaw) && sink.raw_text(tag)) {
      const size_t content = cursor.at();
      cursor.skip_raw(tag.name);
      if (cursor.at() > content) sink.text(cursor.from(content));
    }
  }
}

}  // namespace krill::web
