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

constexpr char lowered(char byte) {
  return byte >= 'A' && byte <= 'Z' ? static_cast<char>(byte | 0x20) : byte;
}

// The first letters of a name, in lower case, as a number.
constexpr size_t kPacked = 8;
constexpr uint64_t packed(std::string_view name) {
  uint64_t letters = 0;
  for (size_t i = 0; i < name.size() && i < kPacked; ++i)
    letters |= uint64_t{static_cast<uint8_t>(lowered(name[i]))} << (8 * i);
  return letters;
}

constexpr size_t kSlots = 512;
constexpr uint8_t kFree = 255;
constexpr size_t slot_of(uint64_t letters) { return (letters * 0x9e3779b97f4a7c15u) >> 55; }

// The element that has each slot; one that finds its own taken has the next free one.
constexpr std::array<uint8_t, kSlots> kElementOfSlot = [] {
  static_assert(kElements.size() < kFree && kElements.size() < kSlots / 2);
  std::array<uint8_t, kSlots> slots{};
  slots.fill(kFree);
  for (size_t element = 0; element < kElements.size(); ++element) {
    size_t slot = slot_of(packed(kElements[element].name));
    while (slots[slot] != kFree) slot = (slot + 1) % kSlots;
    slots[slot] = static_cast<uint8_t>(element);
  }
  return slots;
}();

constexpr auto kPackedNames = [] {
  std::array<uint64_t, kElements.size()> names{};
  for (size_t element = 0; element < names.size(); ++element)
    names[element] = packed(kElements[element].name);
  return names;
}();

bool same_end(std::string_view element, std::string_view name) {
  for (size_t i = kPacked; i < name.size(); ++i) {
    if (lowered(name[i]) != element[i]) return false;
  }
  return true;
}

}  // namespace

TagName tag_name(std::string_view name) {
  const uint64_t letters = packed(name);
  for (size_t slot = slot_of(letters); kElementOfSlot[slot] != kFree; slot = (slot + 1) % kSlots) {
    const uint8_t found = kElementOfSlot[slot];
    const Element& element = kElements[found];
    if (kPackedNames[found] == letters && element.name.size() == name.size() && same_end(element.name, name))
      return {found, element.flags};
  }
  uint32_t hash = 2166136261u;
  for (const char byte : name) hash = (hash ^ static_cast<uint8_t>(lowered(byte))) * 16777619u;
  return {hash | 1u << 31, 0};
}

}  // namespace krill::web
