// Language detection by naive Bayes over the features that an automaton finds.
//
// In: a column of documents. Out: for each the index of its language and the probability, as py3langid gives
// them with norm_probs. Held in memory: the tables; during a call 12 bytes for each feature, and a copy
// of a document where case or normal form call for one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "buffer.hpp"
#include "language/automaton.hpp"
#include "language/feature_counter.hpp"
#include "language/weights.hpp"
#include "text/column.hpp"

namespace krill::language {

struct LanguagePriors {
  std::span<const float> prior;       // for each language
  std::span<const float> background;  // the weight of a feature that is not stored
  double step;                        // the value of one step of a weight
  std::span<const uint8_t> same_as;   // itself, or an earlier language that is the same in another script
};

struct LanguageGuesses {
  Buffer<uint8_t> languages;
  Buffer<float> scores;
};

class LanguageModel {
 public:
  LanguageModel(const AutomatonRows& rows, const WeightRows& features, const LanguagePriors& priors);

  LanguageGuesses classify(const text::TextColumn& column) const;
  size_t nbytes() const { return automaton_.nbytes() + weights_.nbytes(); }

 private:
  struct Guess {
    uint8_t language;
    float score;
  };

  Guess best(const FeatureCounter::Sums& sums, size_t size, std::vector<double>& chances) const;

  FeatureAutomaton automaton_;
  FeatureWeights weights_;
  std::vector<float> prior_;
  std::vector<float> background_;
  double step_;
  std::vector<uint8_t> same_as_;
};

}  // namespace krill::language
