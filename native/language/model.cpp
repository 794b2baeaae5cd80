#include "language/model.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "language/text.hpp"

namespace krill::language {

LanguageModel::LanguageModel(const AutomatonRows& rows, const WeightRows& features,
                             const LanguagePriors& priors)
    : automaton_(rows),
      weights_(features),
      prior_(priors.prior.begin(), priors.prior.end()),
      background_(priors.background.begin(), priors.background.end()),
      step_(priors.step),
      same_as_(priors.same_as.begin(), priors.same_as.end()) {
  const size_t languages = weights_.languages();
  if (automaton_.features() != weights_.features())
    throw std::invalid_argument("the automaton and the weights have different features");
  if (prior_.size() != languages || background_.size() != languages || same_as_.size() != languages)
    throw std::invalid_argument("there must be a prior, a background and a name for each language");
  for (size_t language = 0; language < languages; ++language)
    if (same_as_[language] > language) throw std::invalid_argument("a language is the same as a later one");
}

LanguageGuesses LanguageModel::classify(const text::TextColumn& column) const {
  LanguageGuesses guesses{Buffer<uint8_t>(column.rows), Buffer<float>(column.rows)};
  LanguageText texts;
  FeatureCounter counter(automaton_, weights_);
  std::vector<double> chances(weights_.languages());
  for (size_t row = 0; row < column.rows; ++row) {
    const std::span<const uint8_t> text = texts.prepare({column.begin(row), column.size(row)});
    counter.count(text);
    const Guess guess = best(counter.take(), text.size(), chances);
    guesses.languages[row] = guess.language;
    guesses.scores[row] = guess.score;
  }
  return guesses;
}

LanguageModel::Guess LanguageModel::best(const FeatureCounter::Sums& sums, size_t size,
                                         std::vector<double>& chances) const {
  // Without a feature every language is as likely, whatever is known beforehand.
  for (size_t language = 0; language < chances.size(); ++language)
    chances[language] =
        sums.all_weights == 0
            ? 0.0
            : sums.steps[language] * step_ + sums.all_weights * background_[language] + prior_[language];
  // The root of the length keeps scores of short and of long texts comparable.
  const double scale = 1.0 / std::sqrt(static_cast<double>(std::max<size_t>(size, 1)));
  const double highest = *std::max_element(chances.begin(), chances.end());
  double total = 0;
  for (double& chance : chances) total += chance = std::exp((chance - highest) * scale);
  for (size_t language = 0; language < chances.size(); ++language)
    if (same_as_[language] != language) chances[same_as_[language]] += std::exchange(chances[language], 0.0);
  const auto found = std::max_element(chances.begin(), chances.end());
  return {static_cast<uint8_t>(found - chances.begin()), static_cast<float>(*found / total)};
}

}  // namespace krill::language
