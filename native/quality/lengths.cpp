// Limits on the number of words and characters.
#include "quality/filters.hpp"

namespace krill::quality {
namespace {

class Lengths final : public Filter {
 public:
  explicit Lengths(LengthLimits limits) : limits_(limits) {}

  std::vector<std::string> reasons() const override {
    return {"too_long", "too_few_words", "too_many_words"};
  }
  std::vector<Statistic> statistics() const override { return {}; }

  unsigned scratch_parts() const override { return kWordsPart; }

  size_t judge(Scratch& scratch, double*) const override {
    Document& document = scratch.document;
    if (document.characters() > limits_.max_chars) return 1;
    if (limits_.min_words == 0 && limits_.max_words == LengthLimits::kNone) return 0;
    const size_t words = document.words().total();
    return words < limits_.min_words ? 2 : words > limits_.max_words ? 3 : 0;
  }

 private:
  LengthLimits limits_;
};

}  // namespace

std::unique_ptr<Filter> make_lengths(LengthLimits limits) { return std::make_unique<Lengths>(limits); }

}  // namespace krill::quality
