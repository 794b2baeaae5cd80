#include "quality/contractions.hpp"

#include <cstring>

#include "quality/quick_hash.hpp"

namespace krill::quality {

const ContractionTable kContractionTable;

ContractionTable::ContractionTable() {
  for (size_t i = 0; i < kContractionCount; ++i) {
    const auto* text = reinterpret_cast<const uint8_t*>(kContractions[i].text);
    const size_t size = std::strlen(kContractions[i].text);
    sizes_[outline(text, size)] |= 1u << size;
    size_t slot = quick_hash(text, size) % kSlots;
    while (slots_[slot] != 0) slot = (slot + 1) % kSlots;
    slots_[slot] = static_cast<uint16_t>(i + 1);
  }
}

const Contraction* ContractionTable::look_up(const uint8_t* text, size_t size) const {
  for (size_t slot = quick_hash(text, size) % kSlots; slots_[slot] != 0; slot = (slot + 1) % kSlots) {
    const Contraction& found = kContractions[slots_[slot] - 1];
    if (std::memcmp(found.text, text, size) == 0 && found.text[size] == 0) return &found;
  }
  return nullptr;
}

}  // namespace krill::quality
