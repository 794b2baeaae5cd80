// Drives the language model with text and tables taken from the input, and aborts where it breaks its word:
// text is composed once and for all, a walk goes where plain rows lead, sums are those of a plain count, and
// tables that don't fit together are refused.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <stdexcept>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "language/model.hpp"
#include "language/text.hpp"
#include "text/utf8.hpp"

namespace krill::fuzz {

using LanguageBytes = std::vector<uint8_t>;

inline void fuzz_language_text(Settings settings) {
  const LanguageBytes text(settings.rest(), settings.rest() + settings.rest_size());
  LanguageBytes once, twice, lowered;
  language::append_composed(text, once);
  language::append_composed(once, twice);
  expect(once == twice, "language: composing twice is not composing once");
  expect(!language::is_surely_composed(text) || once == text, "language: a composed text was changed");
  language::append_lower(text, lowered);
  if (text::utf8_prefix(text.data(), text.size()).bytes == text.size()) {
    expect(text::utf8_prefix(once.data(), once.size()).bytes == once.size(),
           "language: composed into ill-formed text");
    expect(text::utf8_prefix(lowered.data(), lowered.size()).bytes == lowered.size(),
           "language: lowered into the same");
    // Hangul and a few letters grow threefold, nothing grows more.
    expect(once.size() <= 3 * text.size(), "language: composed text is too long");
  }
  language::LanguageText prepared;
  (void)prepared.prepare(text);
}

// An automaton and weights of a few states and languages, as plain as can be.
struct PlainModel {
  std::vector<std::array<uint32_t, 256>> rows;
  std::vector<uint32_t> row_of, feature_of;
  std::vector<std::vector<int16_t>> steps;
  std::vector<float> prior, background;
  std::vector<uint8_t> same_as;

  static PlainModel from(Settings& settings) {
    PlainModel plain;
    const size_t states = 1 + settings.next() % 9, row_count = 1 + settings.next() % 6;
    const size_t languages = 1 + settings.next() % 20, features = settings.next() % 5;
    for (size_t row = 0; row < row_count; ++row) {
      auto& targets = plain.rows.emplace_back();
      const size_t changes = settings.next() % 12;
      targets.fill(static_cast<uint32_t>(settings.next() % states));
      for (size_t change = 0; change < changes; ++change)
        targets[settings.next()] = static_cast<uint32_t>(settings.next() % states);
    }
    for (size_t state = 0; state < states; ++state) {
      plain.row_of.push_back(static_cast<uint32_t>(settings.next() % row_count));
      plain.feature_of.push_back(static_cast<uint32_t>(settings.next() % (features + 1)));
    }
    for (size_t feature = 0; feature < features; ++feature) {
      auto& steps = plain.steps.emplace_back(languages);
      for (int16_t& step : steps) step = static_cast<int16_t>((settings.next() - 128) * 64);
    }
    for (size_t language = 0; language < languages; ++language) {
      plain.prior.push_back(static_cast<float>(settings.next()) / 16);
      plain.background.push_back(-static_cast<float>(settings.next()) / 16);
      plain.same_as.push_back(static_cast<uint8_t>(settings.flag() ? language : 0));
    }
    return plain;
  }

  // The sums of a text, one byte after the other.
  std::vector<double> sums(std::span<const uint8_t> text, double step) const {
    std::map<uint32_t, uint32_t> counts;
    uint32_t state = 0;
    for (const uint8_t byte : text) {
      state = rows[row_of[state]][byte];
      if (feature_of[state] < steps.size()) ++counts[feature_of[state]];
    }
    std::vector<double> total(prior.size(), 0.0);
    for (size_t language = 0; language < prior.size() && !counts.empty(); ++language) {
      total[language] = prior[language];
      for (const auto& [feature, count] : counts)
        total[language] +=
            std::log1p(static_cast<float>(count)) * (background[language] + step * steps[feature][language]);
    }
    return total;
  }
};

// The same, as the native model takes it: the first `dense` features as rows, the others as pairs.
struct PackedModel {
  std::vector<uint32_t> defaults, starts{0}, targets, pair_starts{0};
  std::vector<uint8_t> default_of, bytes, pair_languages;
  std::vector<int16_t> dense, pair_steps;

  PackedModel(const PlainModel& plain, size_t dense_count) {
    defaults.assign(plain.rows[0].begin(), plain.rows[0].end());
    for (const auto& row : plain.rows) {
      default_of.push_back(0);
      for (size_t byte = 0; byte < 256; ++byte) {
        if (row[byte] == defaults[byte]) continue;
        bytes.push_back(static_cast<uint8_t>(byte));
        targets.push_back(row[byte]);
      }
      starts.push_back(static_cast<uint32_t>(bytes.size()));
    }
    for (size_t feature = 0; feature < plain.steps.size(); ++feature) {
      const auto& steps = plain.steps[feature];
      if (feature < dense_count) {
        dense.insert(dense.end(), steps.begin(), steps.end());
        continue;
      }
      for (size_t language = 0; language < steps.size(); ++language) {
        if (steps[language] == 0) continue;
        pair_languages.push_back(static_cast<uint8_t>(language));
        pair_steps.push_back(steps[language]);
      }
      pair_starts.push_back(static_cast<uint32_t>(pair_steps.size()));
    }
  }

  language::AutomatonRows rows(const PlainModel& plain) const {
    return {defaults.data(),     1,
            default_of.data(),   starts.data(),
            default_of.size(),   bytes.data(),
            targets.data(),      targets.size(),
            plain.row_of.data(), plain.feature_of.data(),
            plain.row_of.size(), plain.steps.size()};
  }
  language::WeightRows features(const PlainModel& plain) const {
    const size_t languages = plain.prior.size();
    return {languages,          dense.data(),           dense.size() / languages,
            pair_starts.data(), pair_starts.size() - 1, pair_languages.data(),
            pair_steps.data(),  pair_steps.size()};
  }
};

inline void check_guess(const PlainModel& plain, std::vector<double> sums, size_t size, uint8_t language,
                        float score) {
  const double highest = *std::max_element(sums.begin(), sums.end());
  double total = 0;
  for (double& sum : sums) {
    sum = std::exp((sum - highest) / std::sqrt(static_cast<double>(std::max<size_t>(size, 1))));
    total += sum;
  }
  std::vector<double> merged(sums.size(), 0.0);
  for (size_t i = 0; i < sums.size(); ++i) merged[plain.same_as[i]] += sums[i] / total;
  const double best = *std::max_element(merged.begin(), merged.end());
  expect(language < merged.size() && merged[language] > best - 1e-6, "language: another one is likelier");
  expect(std::abs(score - best) < 1e-5, "language: another score");
}

inline void fuzz_language_model(Settings settings) {
  constexpr double kStep = 1.0 / 1024;
  PlainModel plain = PlainModel::from(settings);
  const size_t dense = settings.next() % (plain.steps.size() + 1);
  const PackedModel packed(plain, dense);
  const language::LanguagePriors priors{plain.prior, plain.background, kStep, plain.same_as};
  const language::LanguageModel model(packed.rows(plain), packed.features(plain), priors);

  // Long enough for lanes, too: the rest of the input, some times over.
  LanguageBytes text;
  const size_t times = settings.next() % 8;
  for (size_t time = 0; time <= times; ++time)
    text.insert(text.end(), settings.rest(), settings.rest() + settings.rest_size());
  const std::array<int64_t, 3> offsets{0, static_cast<int64_t>(text.size() / 3),
                                       static_cast<int64_t>(text.size())};
  const language::LanguageGuesses guesses = model.classify({offsets.data(), 2, text.data(), text.size()});
  language::LanguageText texts;
  for (size_t row = 0; row < 2; ++row) {
    const std::span<const uint8_t> whole(text);
    const auto prepared = texts.prepare(whole.subspan(static_cast<size_t>(offsets[row]),
                                                      static_cast<size_t>(offsets[row + 1] - offsets[row])));
    check_guess(plain, plain.sums(prepared, kStep), prepared.size(), guesses.languages[row],
                guesses.scores[row]);
  }
}

// Tables with one number changed are refused, or walked without leaving them.
inline void fuzz_language_tables(Settings settings) {
  PlainModel plain = PlainModel::from(settings);
  PackedModel packed(plain, settings.next() % (plain.steps.size() + 1));
  const auto spoil = [&](auto& numbers) {
    if (!numbers.empty())
      numbers[settings.next() % numbers.size()] =
          static_cast<std::decay_t<decltype(numbers[0])>>(settings.next());
  };
  switch (settings.next() % 8) {
    case 0: spoil(packed.defaults); break;
    case 1: spoil(packed.starts); break;
    case 2: spoil(packed.targets); break;
    case 3: spoil(packed.bytes); break;
    case 4: spoil(packed.default_of); break;
    case 5: spoil(packed.pair_starts); break;
    case 6: spoil(packed.pair_languages); break;
    default: spoil(settings.flag() ? plain.row_of : plain.feature_of); break;
  }
  try {
    const language::LanguagePriors priors{plain.prior, plain.background, 0.5, plain.same_as};
    const language::LanguageModel model(packed.rows(plain), packed.features(plain), priors);
    const std::array<int64_t, 2> offsets{0, static_cast<int64_t>(settings.rest_size())};
    (void)model.classify({offsets.data(), 1, settings.rest(), settings.rest_size()});
  } catch (const std::invalid_argument&) {
  }
}

inline void fuzz_language(const uint8_t* data, size_t size) {
  fuzz_language_text({data, size});
  fuzz_language_model({data, size});
  fuzz_language_tables({data, size});
}

}  // namespace krill::fuzz
