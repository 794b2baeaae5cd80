// Naive Bayes over the features that an automaton finds: which language a text is in, and how sure that is.
//
// Comes in: a column of documents. Goes out: for each the number of its language and the probability, as
// py3langid gives them with norm_probs. Held: the tables; during a call 12 bytes for each feature, and a copy
// of a document where case or normal form call for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "language/tally.hpp"
#include "language/walk.hpp"
#include "language/weights.hpp"
#include "text/column.hpp"

namespace krill::language {

struct LanguagePriors {
  std::span<const float> prior;       // for each language
  std::span<const float> background;  // what a feature says that says nothing
  double step;                        // what one step of a weight is worth
  std::span<const uint8_t> same_as;   // itself, or an earlier language that is the same in another script
};

struct LanguageGuesses {
  Buffer<uint8_t> languages;
  Buffer<float> scores;
};

class LanguageModel {
 public:
  LanguageModel(const LanguageRows& rows, const LanguageFeatures& features, const LanguagePriors& priors);

  LanguageGuesses classify(const text::TextColumn& column) const;
  size_t nbytes() const { return walk_.nbytes() + weights_.nbytes(); }

 private:
  struct Guess {
    uint8_t language;
    float score;
  };

  Guess best(const LanguageTally::Sums& sums, size_t size, std::vector<double>& chances) const;

  LanguageWalk walk_;
  LanguageWeights weights_;
  std::vector<float> prior_;
  std::vector<float> background_;
  double step_;
  std::vector<uint8_t> same_as_;
};

}  // namespace krill::language
