#include "web/html_tags.hpp"

#include <array>
#include <cstddef>

namespace krill::web {

namespace {

constexpr uint32_t kBlock = kSpecial | kClosesP | kBlockEnd | kBreak;
constexpr uint32_t kPlainSpecial = kSpecial | kBreak;

struct Element {
  std::string_view name;
  uint32_t flags;
};

constexpr std::array kElements = std::to_array<Element>({
    {"a", kFormatting},
    {"address", kBlock},
    {"annotation-xml", kScope | kSpecial | kIntegration},
    {"applet", kScope | kSpecial | kBlockEnd},
    {"area", kVoid | kSpecial},
    {"article", kBlock},
    {"aside", kBlock},
    {"b", kFormatting},
    {"base", kVoid | kSpecial},
    {"basefont", kVoid | kSpecial},
    {"bgsound", kVoid | kSpecial},
    {"big", kFormatting},
    {"blockquote", kBlock},
    {"body", kLeavesForeign | kSpecial | kRoot | kBreak},
    {"br", kLeavesForeign | kVoid | kSpecial | kBreak},
    {"button", kSpecial | kBlockEnd | kButton},
    {"caption", kScope | kPlainSpecial | kRowGroup},
    {"center", kBlock},
    {"code", kFormatting},
    {"col", kVoid | kSpecial},
    {"colgroup", kSpecial | kRowGroup},
    {"dd", kPlainSpecial | kClosesP | kDefinition},
    {"desc", kScope | kSpecial | kIntegration},
    {"details", kBlock},
    {"dialog", kClosesP | kBlockEnd | kBreak},
    {"dir", kBlock},
    {"div", kBlock},
    {"dl", kBlock},
    {"dt", kPlainSpecial | kClosesP | kDefinition},
    {"em", kFormatting},
    {"embed", kLeavesForeign | kVoid | kSpecial},
    {"fieldset", kBlock},
    {"figcaption", kBlock},
    {"figure", kBlock},
    {"font", kFormatting},
    {"footer", kBlock},
    {"foreignobject", kScope | kSpecial | kIntegration},
    {"form", kPlainSpecial | kClosesP | kForm},
    {"frame", kVoid | kSpecial},
    {"frameset", kSpecial | kRoot},
    {"h1", kPlainSpecial | kClosesP | kHeading},
    {"h2", kPlainSpecial | kClosesP | kHeading},
    {"h3", kPlainSpecial | kClosesP | kHeading},
    {"h4", kPlainSpecial | kClosesP | kHeading},
    {"h5", kPlainSpecial | kClosesP | kHeading},
    {"h6", kPlainSpecial | kClosesP | kHeading},
    {"head", kLeavesForeign | kSpecial | kRoot},
    {"header", kBlock},
    {"hgroup", kBlock},
    {"hr", kLeavesForeign | kVoid | kPlainSpecial | kClosesP},
    {"html", kScope | kSpecial | kRoot},
    {"i", kFormatting},
    {"iframe", kSpecial | kRaw | kHidden},
    {"image", kVoid | kSpecial},
    {"img", kLeavesForeign | kVoid | kSpecial},
    {"input", kVoid | kSpecial},
    {"keygen", kVoid | kSpecial},
    {"li", kPlainSpecial | kClosesP | kListItem},
    {"link", kVoid | kSpecial},
    {"listing", kBlock},
    {"main", kBlock},
    {"marquee", kScope | kSpecial | kBlockEnd},
    {"math", kForeign | kHidden},
    {"menu", kBlock},
    {"meta", kLeavesForeign | kVoid | kSpecial},
    {"mi", kScope | kSpecial | kIntegration},
    {"mn", kScope | kSpecial | kIntegration},
    {"mo", kScope | kSpecial | kIntegration},
    {"ms", kScope | kSpecial | kIntegration},
    {"mtext", kScope | kSpecial | kIntegration},
    {"nav", kBlock},
    {"nobr", kFormatting},
    {"noembed", kSpecial | kRaw | kHidden},
    {"noframes", kSpecial | kRaw | kHidden},
    {"noscript", kSpecial},
    {"object", kScope | kSpecial | kBlockEnd},
    {"ol", kBlock | kList},
    {"optgroup", kOption | kBreak},
    {"option", kOption | kBreak},
    {"p", kPlainSpecial | kClosesP | kParagraph},
    {"param", kVoid | kSpecial},
    {"plaintext", kPlainSpecial | kClosesP},
    {"pre", kBlock},
    {"s", kFormatting},
    {"script", kSpecial | kRaw | kHidden},
    {"search", kBlock},
    {"section", kBlock},
    {"select", kSpecial | kSelect},
    {"small", kFormatting},
    {"source", kVoid | kSpecial},
    {"strike", kFormatting},
    {"strong", kFormatting},
    {"style", kSpecial | kRaw | kHidden},
    {"summary", kBlock},
    {"svg", kForeign | kHidden},
    {"table", kScope | kPlainSpecial | kTable},
    {"tbody", kPlainSpecial | kRowGroup},
    {"td", kScope | kSpecial | kCell},
    {"template", kScope | kSpecial | kTemplate},
    {"textarea", kSpecial | kRaw},
    {"tfoot", kPlainSpecial | kRowGroup},
    {"th", kScope | kSpecial | kCell},
    {"thead", kPlainSpecial | kRowGroup},
    {"title", kSpecial | kRaw | kIntegration | kHidden},
    {"tr", kPlainSpecial | kRow},
    {"track", kVoid | kSpecial},
    {"tt", kFormatting},
    {"u", kFormatting},
    {"ul", kBlock | kList},
    {"wbr", kVoid | kSpecial},
    {"xmp", kPlainSpecial | kClosesP | kRaw},
});

// Where the names that begin with each letter begin.
constexpr std::array<uint8_t, 27> kBegins = [] {
  static_assert(kElements.size() < 256);
  std::array<uint8_t, 27> begins{};
  for (size_t letter = 0; letter < begins.size(); ++letter) {
    while (begins[letter] < kElements.size() &&
           kElements[begins[letter]].name.front() < static_cast<char>('a' + letter))
      ++begins[letter];
  }
  return begins;
}();

char lowered(char byte) { return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte; }

bool same_name(std::string_view element, std::string_view name) {
  for (size_t i = 0; i < name.size(); ++i) {
    if (lowered(name[i]) != element[i]) return false;
  }
  return true;
}

}  // namespace

TagName tag_name(std::string_view name) {
  const char first = name.empty() ? '\0' : lowered(name.front());
  if (first >= 'a' && first <= 'z') {
    const size_t letter = static_cast<size_t>(first - 'a');
    for (size_t i = kBegins[letter]; i < kBegins[letter + 1]; ++i) {
      const Element& element = kElements[i];
      if (element.name.size() == name.size() && same_name(element.name, name))
        return {static_cast<uint32_t>(i), element.flags};
    }
  }
  uint32_t hash = 2166136261u;
  for (const char byte : name) hash = (hash ^ static_cast<uint8_t>(lowered(byte))) * 16777619u;
  return {hash | 1u << 31, 0};
}

}  // namespace krill::web
