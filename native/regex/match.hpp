// What matchers give, and how long they may take for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace krill::regex {

struct Match {
  size_t begin;
  size_t end;
};

// Between matches and with the end of a stretch: what lies before it is no match.
constexpr uint32_t kGapFlag = 1u << 31;

// How many steps may be spent on a text beyond reading it once. Far above what any sensible pattern takes,
// and far below what a hostile one would.
class StepBudget {
 public:
  explicit StepBudget(uint64_t steps) : left_(steps) {}

  void spend(uint64_t steps) {
    if (steps > left_) throw std::runtime_error("the pattern backtracks too far");
    left_ -= steps;
  }

 private:
  uint64_t left_;
};

}  // namespace krill::regex
