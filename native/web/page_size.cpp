#include "web/page_size.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "check.hpp"
#include "web/html_tags.hpp"

namespace krill::web {

namespace {

// Attributes of one tag, and options of one list, are compared with each other: an eighth of an element each.
constexpr int64_t kShare = 8;
// Open elements of a kind without attributes that are opened again, at most: the standard's "Noah's Ark".
constexpr int64_t kMostAlike = 3;
constexpr uint32_t kNoElement = 0;
constexpr size_t kNone = static_cast<size_t>(-1);
constexpr uint32_t kTableContext = kTable | kTemplate | kRowGroup | kRow;

class OpenElements {
 public:
  OpenElements(const PageLimits& limits, bool empty_raw) : limits_(limits), empty_raw_(empty_raw) {}

  const PageSize& size() const { return size_; }
  bool raw_text(const Tag& tag) const { return foreign_ == 0 && !(empty_raw_ && tag.self_closing); }
  void text(std::string_view) {}

  bool comment() {
    ++size_.tags;
    return limits_.hold(size_);
  }

  bool tag(const Tag& tag) {
    if (tag.end) {
      end_tag(tag);
    } else {
      start_tag(tag);
    }
    return limits_.hold(size_);
  }

 private:
  void start_tag(const Tag& tag) {
    const uint32_t flags = tag.name.flags;
    if (foreign_ == 0) close_before(tag.name);
    // Those in front that count a second time: attributes, attributes of a root that are joined, options.
    const int64_t attributes = tag.attributes;
    size_.attributes += attributes;
    size_.attribute_bytes += static_cast<int64_t>(tag.attribute_bytes);
    int64_t compared = attributes * (attributes - 1) / 2;
    if (flags & kRoot) {
      compared += attributes * root_attributes_;
      root_attributes_ += attributes;
    }
    if (flags & kSelect) options_ = 0;
    // A list in a list ends that one, which what stands between may hide.
    only_options_ = (flags & kSelect) ? !has_open(kSelect) : only_options_ && (flags & kOption);
    if (flags & kOption) compared += options_++;
    count(compared / kShare);
    if (flags & kFormatting) reopened(tag, 1);
    // In SVG, names of HTML are those of other elements, but for those that end it.
    const bool html = foreign_ == 0 || (flags & kLeavesForeign);
    const bool slash_ends = foreign_ > 0 || (empty_raw_ && (flags & kRaw));
    const bool root = (flags & kRoot) && !stack_.empty();
    const bool empty = (html && ((flags & kVoid) || root)) || (slash_ends && tag.self_closing);
    if (empty) return;
    if (flags & kForeign) ++foreign_;
    stack_.push_back(tag.name);
    size_.depth = std::max(size_.depth, depth());
  }

  void end_tag(const Tag& tag) {
    const uint32_t flags = tag.name.flags;
    if (!(flags & kOption)) only_options_ = false;
    if (flags & kRoot) return;
    const size_t found = open_element(tag.name);
    if (found == kNone) {
      // An empty paragraph or a line break stands in its place.
      if ((flags & kParagraph) || (flags & (kBreak | kVoid | kClosesP)) == (kBreak | kVoid)) count(0);
      return;
    }
    if (flags & kForm) {
      stack_.erase(stack_.begin() + static_cast<std::ptrdiff_t>(found));
    } else {
      cut(found);
    }
  }

  void count(int64_t more) {
    ++size_.tags;
    size_.work += depth() + more;
  }

  bool has_open(uint32_t wanted) {
    for (const TagName open : stack_) {
      ++size_.work;
      if (open.flags & wanted) return true;
    }
    return false;
  }

  int64_t depth() const { return static_cast<int64_t>(stack_.size()) + reopened_; }

  // Where the element that an end tag ends is open; kNone if the tag ends nothing, or less than all inside.
  size_t open_element(TagName name) {
    const uint32_t flags = name.flags;
    uint32_t stop = kSpecial;
    if (flags & (kBlockEnd | kHeading | kDefinition | kForm)) stop = kScope;
    if (flags & kListItem) stop = kScope | kList;
    if (flags & kParagraph) stop = kScope | kButton;
    if (flags & (kCell | kRow | kRowGroup | kTable)) stop = kTable | kTemplate;
    if (flags & (kTemplate | kForeign)) stop = kNoElement;
    size_t at = stack_.size();
    while (at > 0) {
      ++size_.work;
      const TagName open = stack_[--at];
      const bool same = open.key == name.key || ((flags & kHeading) && (open.flags & kHeading));
      if (same && (flags & kFormatting)) reopened_end(name);
      if (same) return at;
      if ((open.flags & stop) || (foreign_ > 0 && stop != kNoElement)) return kNone;
    }
    // One that was cut off, and would be opened again.
    if (flags & kFormatting) reopened_end(name);
    return kNone;
  }

  // Ends what can't be open where this element begins.
  void close_before(TagName name) {
    const uint32_t flags = name.flags;
    if (flags & kClosesP) close_nearest(kParagraph, kScope | kButton);
    if (flags & kListItem) close_item(kListItem);
    if (flags & kDefinition) close_item(kDefinition);
    if ((flags & kHeading) && !stack_.empty() && (stack_.back().flags & kHeading)) stack_.pop_back();
    if (flags & kOption) close_option(name);
    if (flags & kCell) close_to_table(kRow);
    if (flags & kRow) close_to_table(kRowGroup);
    if (flags & kRowGroup) close_to_table(kNoElement);
  }

  // Outside of a list, groups of options stand inside each other.
  void close_option(TagName name) {
    static const TagName kOptionName = tag_name("option");
    if (options_ > 0 && !stack_.empty() && stack_.back().key == kOptionName.key) stack_.pop_back();
    const bool group = name.key != kOptionName.key;
    if (group && only_options_ && !stack_.empty() && (stack_.back().flags & kOption)) stack_.pop_back();
  }

  void close_nearest(uint32_t wanted, uint32_t stop) {
    for (size_t at = stack_.size(); at > 0;) {
      ++size_.work;
      const uint32_t open = stack_[--at].flags;
      if (open & wanted) return cut(at);
      if (open & stop) return;
    }
  }

  // As `li` ends the `li` before it: not beyond a special element other than `address`, `div` and `p`.
  void close_item(uint32_t wanted) {
    static const TagName kAddress = tag_name("address");
    static const TagName kDiv = tag_name("div");
    for (size_t at = stack_.size(); at > 0;) {
      ++size_.work;
      const TagName open = stack_[--at];
      if (open.flags & wanted) return cut(at);
      const bool passed = (open.flags & kParagraph) || open.key == kAddress.key || open.key == kDiv.key;
      if ((open.flags & kSpecial) && !passed) return;
    }
  }

  // Down to the nearest table, or what of it holds the element that begins.
  void close_to_table(uint32_t holder) {
    for (size_t at = stack_.size(); at > 0;) {
      ++size_.work;
      const uint32_t open = stack_[--at].flags;
      if (open & (kTable | kTemplate | holder)) {
        return cut(at + 1);
      }
    }
  }

  void cut(size_t at) {
    for (size_t i = at; i < stack_.size(); ++i) {
      if (stack_[i].flags & kForeign) --foreign_;
    }
    // HTML inside of SVG may go on behind its end tag, and SVG behind that.
    for (size_t i = at; i < stack_.size(); ++i) {
      if ((stack_[i].flags & kIntegration) && (stack_[at].flags & kForeign)) {
        ++foreign_;
        break;
      }
    }
    stack_.resize(at);
  }

  void reopened(const Tag& tag, int64_t more) {
    check_index(tag.name.key, plain_.size());
    if (tag.attributes == 0) {
      if (plain_[tag.name.key] >= kMostAlike) return;
      ++plain_[tag.name.key];
    } else {
      ++varied_[tag.name.key];
    }
    reopened_ += more;
  }

  void reopened_end(TagName name) {
    check_index(name.key, plain_.size());
    for (auto* open : {&varied_[name.key], &plain_[name.key]}) {
      if (*open > 0) {
        --*open;
        --reopened_;
        return;
      }
    }
  }

  const PageLimits limits_;
  const bool empty_raw_;
  PageSize size_;
  std::vector<TagName> stack_;
  int64_t foreign_ = 0;
  int64_t options_ = 0;
  bool only_options_ = false;  // a list of options has begun, and nothing else since then
  int64_t root_attributes_ = 0;
  int64_t reopened_ = 0;
  // By the key of known elements.
  std::array<int64_t, 256> plain_{};
  std::array<int64_t, 256> varied_{};
};

}  // namespace

PageSize measure_page(std::string_view page, const PageLimits& limits, bool empty_raw) {
  OpenElements open(limits, empty_raw);
  scan_page(page, open);
  return open.size();
}

}  // namespace krill::web
