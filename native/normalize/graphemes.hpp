// Borders of grapheme clusters, as the library's Precompiled sees them.
//
// Regional indicators are `other` here: a pair of them is eight bytes, and what Precompiled does with a
// cluster of six bytes or more does not depend on where it ends, unless something shorter is cut differently.
#pragma once

#include <cstddef>
#include <cstdint>

#include "normalize/characters.hpp"

namespace krill::normalize {

enum class Grapheme : uint8_t {
  other,
  cr,
  lf,
  control,
  extend,
  conjunct_extend,  // also may stand between the consonants of a conjunct
  conjunct_linker,  // joins them
  joiner,           // U+200D
  spacing,
  prepend,
  lead,
  vowel,
  tail,
  lead_vowel,
  lead_vowel_tail,
  pictograph,
  consonant,
};

inline Grapheme grapheme_of(uint32_t point) {
  return static_cast<Grapheme>(kGraphemePages[kGraphemePageOf[point / kPage] * kPage + point % kPage]);
}

// Whether a border lies before and behind such a character unless something at its side is of another kind.
inline bool stands_alone(Grapheme kind) { return kind == Grapheme::other || kind >= Grapheme::lead_vowel; }

// A cluster as it grows, from its first character on.
class Cluster {
 public:
  explicit Cluster(Grapheme first) : last_(first) { note(first); }

  // Whether the next character belongs to the cluster; if it does, it is taken in.
  bool takes(Grapheme next) {
    if (!joined(next)) return false;
    note(next);
    last_ = next;
    return true;
  }

 private:
  using enum Grapheme;

  bool joined(Grapheme next) const {
    if (last_ == cr) return next == lf;
    if (last_ == lf || last_ == control) return false;
    switch (next) {
      case cr:
      case lf:
      case control: return false;
      case extend:
      case conjunct_extend:
      case conjunct_linker:
      case joiner:
      case spacing: return true;
      default: break;
    }
    if (last_ == prepend) return true;
    switch (next) {
      case lead:
      case lead_vowel:
      case lead_vowel_tail: return last_ == lead;
      case vowel: return last_ == lead || last_ == vowel || last_ == lead_vowel;
      case tail: return last_ == vowel || last_ == lead_vowel || last_ == tail || last_ == lead_vowel_tail;
      case pictograph: return last_ == joiner && after_pictograph_;
      case consonant: return after_consonant_ && linked_;
      default: return false;
    }
  }

  void note(Grapheme kind) {
    // A pictograph and marks, with at most one joiner, the last; a consonant, and what may stand in a
    // conjunct.
    if (kind == pictograph) {
      after_pictograph_ = true;
    } else if (kind == joiner) {
      after_pictograph_ = after_pictograph_ && last_ != joiner;
    } else if (kind != extend && kind != conjunct_extend && kind != conjunct_linker) {
      after_pictograph_ = false;
    } else if (last_ == joiner) {
      after_pictograph_ = false;
    }
    if (kind == consonant) {
      after_consonant_ = true;
      linked_ = false;
    } else if (kind == conjunct_linker) {
      linked_ = true;
    } else if (kind != conjunct_extend && kind != joiner) {
      after_consonant_ = linked_ = false;
    }
  }

  Grapheme last_;
  bool after_pictograph_ = false;
  bool after_consonant_ = false;
  bool linked_ = false;
};

}  // namespace krill::normalize
