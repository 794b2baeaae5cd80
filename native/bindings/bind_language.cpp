#include <nanobind/nanobind.h>

#include <memory>
#include <vector>

#include "bindings/arrays.hpp"
#include "check.hpp"
#include "language/model.hpp"
#include "language/text.hpp"

namespace krill::bindings {

namespace {

language::AutomatonRows rows_of(const In<uint32_t>& defaults, const In<uint8_t>& default_of,
                                const In<uint32_t>& starts, const In<uint8_t>& bytes,
                                const In<uint32_t>& targets, const In<uint32_t>& row_of,
                                const In<uint32_t>& feature_of, size_t features) {
  expect(defaults.size() % 256 == 0, "a default row has 256 states");
  expect(starts.size() == default_of.size() + 1, "there must be one start more than rows");
  expect(bytes.size() == targets.size(), "there must be one byte for each target");
  expect(row_of.size() == feature_of.size(), "there must be one feature for each state");
  return {defaults.data(),   defaults.size() / 256, default_of.data(), starts.data(),
          default_of.size(), bytes.data(),          targets.data(),    targets.size(),
          row_of.data(),     feature_of.data(),     row_of.size(),     features};
}

language::WeightRows features_of(const In<int16_t>& dense, const In<uint32_t>& starts,
                                 const In<uint8_t>& languages, const In<int16_t>& steps, size_t width) {
  expect(width > 0 && dense.size() % width == 0, "a dense feature has a step for each language");
  expect(starts.size() > 0, "there must be one start more than sparse features");
  expect(languages.size() == steps.size(), "there must be one step for each pair");
  return {width,         dense.data(),      dense.size() / width,
          starts.data(), starts.size() - 1, languages.data(),
          steps.data(),  steps.size()};
}

void make_model(language::LanguageModel* self, const In<uint32_t>& defaults, const In<uint8_t>& default_of,
                const In<uint32_t>& row_starts, const In<uint8_t>& bytes, const In<uint32_t>& targets,
                const In<uint32_t>& row_of, const In<uint32_t>& feature_of, const In<int16_t>& dense,
                const In<uint32_t>& pair_starts, const In<uint8_t>& pair_languages,
                const In<int16_t>& pair_steps, const In<float>& prior, const In<float>& background,
                double step, const In<uint8_t>& same_as) {
  const language::WeightRows features =
      features_of(dense, pair_starts, pair_languages, pair_steps, prior.size());
  const language::AutomatonRows rows = rows_of(defaults, default_of, row_starts, bytes, targets, row_of,
                                               feature_of, features.dense_count + features.sparse_count);
  const language::LanguagePriors priors{span_of(prior), span_of(background), step, span_of(same_as)};
  nb::gil_scoped_release release;
  new (self) language::LanguageModel(rows, features, priors);
}

nb::tuple classify(const language::LanguageModel& model, const In<int64_t>& offsets, nb::handle data) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  language::LanguageGuesses guesses = without_gil([&] { return model.classify(column); });
  return nb::make_tuple(to_numpy(std::move(guesses.languages)), to_numpy(std::move(guesses.scores)));
}

nb::bytes language_text(nb::handle data) {
  const ByteView bytes(data);
  language::LanguageText text;
  const auto prepared = text.prepare({bytes.data(), bytes.size()});
  return nb::bytes(reinterpret_cast<const char*>(prepared.data()), prepared.size());
}

}  // namespace

void bind_language(nb::module_& m) {
  m.def("language_text", &language_text, nb::arg("data"));
  nb::class_<language::LanguageModel>(m, "LanguageModel")
      .def("__init__", &make_model, nb::arg("defaults").noconvert(), nb::arg("default_of").noconvert(),
           nb::arg("row_starts").noconvert(), nb::arg("bytes").noconvert(), nb::arg("targets").noconvert(),
           nb::arg("row_of").noconvert(), nb::arg("feature_of").noconvert(), nb::arg("dense").noconvert(),
           nb::arg("pair_starts").noconvert(), nb::arg("pair_languages").noconvert(),
           nb::arg("pair_steps").noconvert(), nb::arg("prior").noconvert(), nb::arg("background").noconvert(),
           nb::arg("step"), nb::arg("same_as").noconvert())
      .def("classify", &classify, nb::arg("offsets").noconvert(), nb::arg("data"))
      .def_prop_ro("nbytes", &language::LanguageModel::nbytes);
}

}  // namespace krill::bindings
