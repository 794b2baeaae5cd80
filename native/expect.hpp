// What must hold of numbers that come from outside.
#pragma once

#include <stdexcept>

namespace krill {

inline void expect(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

}  // namespace krill
