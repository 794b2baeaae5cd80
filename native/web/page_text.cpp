#include "web/page_text.hpp"

#include "web/html_tags.hpp"

namespace krill::web {

namespace {

class TextSink {
 public:
  explicit TextSink(size_t size) { text_.reserve(size / 4); }

  bool raw_text(const Tag&) const { return true; }
  bool comment() const { return true; }

  void text(std::string_view text) {
    if (!hidden_) text_.append(text);
    hidden_ = false;
  }

  bool tag(const Tag& tag) {
    const uint32_t flags = tag.name.flags;
    if (flags & kBreak) {
      text_.push_back('\n');
    } else if (flags & kCell) {
      text_.push_back(' ');
    }
    hidden_ = !tag.end && (flags & kRaw) && (flags & kHidden);
    return true;
  }

  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  bool hidden_ = false;
};

}  // namespace

std::string page_text(std::string_view page) {
  TextSink sink(page.size());
  scan_page(page, sink);
  return sink.take();
}

}  // namespace krill::web
