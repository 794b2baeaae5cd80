// Checks of arguments that come from outside, and of indices in the sanitizers' build.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <stdexcept>

namespace krill {

// Throws std::invalid_argument with `what` unless `holds`.
inline void expect(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

// Aborts if an index is out of bounds; does nothing outside of the sanitizers' build (KRILL_SANITIZE).
inline void check_index([[maybe_unused]] size_t index, [[maybe_unused]] size_t size) {
#ifdef KRILL_CHECK_INDICES
  if (index >= size) std::abort();
#endif
}

}  // namespace krill
