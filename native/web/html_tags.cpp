#include "web/html_tags.hpp"

#include <algorithm>
#include <array>

namespace krill::web {

namespace {

constexpr size_t kLongestName = 16;
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
    {"body", kSpecial | kRoot | kBreak},
    {"br", kVoid | kSpecial | kBreak},
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
    {"embed", kVoid | kSpecial},
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
    {"head", kSpecial | kRoot},
    {"header", kBlock},
    {"hgroup", kBlock},
    {"hr", kVoid | kPlainSpecial | kClosesP},
    {"html", kScope | kSpecial | kRoot},
    {"i", kFormatting},
    {"iframe", kSpecial | kRaw | kHidden},
    {"image", kVoid | kSpecial},
    {"img", kVoid | kSpecial},
    {"input", kVoid | kSpecial},
    {"keygen", kVoid | kSpecial},
    {"li", kPlainSpecial | kClosesP | kListItem},
    {"link", kVoid | kSpecial},
    {"listing", kBlock},
    {"main", kBlock},
    {"marquee", kScope | kSpecial | kBlockEnd},
    {"math", kForeign | kHidden},
    {"menu", kBlock},
    {"meta", kVoid | kSpecial},
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

}  // namespace

TagName tag_name(std::string_view name) {
  std::array<char, kLongestName> lower;
  uint32_t hash = 2166136261u;
  for (size_t i = 0; i < name.size(); ++i) {
    const char byte = name[i] >= 'A' && name[i] <= 'Z' ? static_cast<char>(name[i] | 0x20) : name[i];
    if (i < kLongestName) lower[i] = byte;
    hash = (hash ^ static_cast<uint8_t>(byte)) * 16777619u;
  }
  if (name.size() <= kLongestName) {
    const std::string_view wanted(lower.data(), name.size());
    const auto found =
        std::lower_bound(kElements.begin(), kElements.end(), wanted,
                         [](const Element& element, std::string_view key) { return element.name < key; });
    if (found != kElements.end() && found->name == wanted)
      return {static_cast<uint32_t>(found - kElements.begin()), found->flags};
  }
  return {hash | 1u << 31, 0};
}

}  // namespace krill::web
