#include <nanobind/nanobind.h>
#include <nanobind/stl/unique_ptr.h>

#include <algorithm>
#include <memory>
#include <string>

#include "bindings/arrays.hpp"
#include "check.hpp"
#include "fasttext/model.hpp"

namespace krill::bindings {

namespace {

std::unique_ptr<fasttext::Model> read_model(int descriptor, size_t size) {
  nb::gil_scoped_release release;
  fasttext::FileSource source(descriptor);
  fasttext::ModelReader reader(source, size);
  return std::make_unique<fasttext::Model>(reader);
}

nb::list labels(const fasttext::Model& model) {
  nb::list found;
  for (size_t label = 0; label < model.dictionary().labels(); ++label) {
    const std::string_view text = model.dictionary().label(label);
    found.append(nb::bytes(text.data(), text.size()));
  }
  return found;
}

std::string_view without_line_ends(std::string_view text, std::string& kept) {
  if (text.find('\n') == std::string_view::npos) return text;
  kept.clear();
  std::copy_if(text.begin(), text.end(), std::back_inserter(kept), [](char byte) { return byte != '\n'; });
  return kept;
}

nb::tuple score(const fasttext::Model& model, const In<int64_t>& offsets, nb::handle data,
                const In<int32_t>& wanted, bool join_lines) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  const size_t label_count = model.dictionary().labels();
  for (size_t at = 0; at < wanted.size(); ++at)
    expect(wanted.data()[at] >= 0 && static_cast<size_t>(wanted.data()[at]) < label_count,
           "there is no such label");
  Buffer<float> scores(column.rows * wanted.size());
  Buffer<int32_t> best(column.rows);
  Buffer<float> best_scores(column.rows);
  {
    nb::gil_scoped_release release;
    fasttext::Model::Scratch scratch;
    std::string joined;
    std::vector<float> all(label_count);
    for (size_t row = 0; row < column.rows; ++row) {
      std::string_view text(reinterpret_cast<const char*>(column.begin(row)), column.size(row));
      if (join_lines) text = without_line_ends(text, joined);
      model.score(text, scratch, all.data());
      const auto most = std::max_element(all.begin(), all.end());
      best[row] = *most > 0 ? static_cast<int32_t>(most - all.begin()) : -1;
      best_scores[row] = *most;
      for (size_t at = 0; at < wanted.size(); ++at)
        scores[row * wanted.size() + at] = all[static_cast<size_t>(wanted.data()[at])];
    }
  }
  return nb::make_tuple(to_numpy(std::move(scores)), to_numpy(std::move(best)),
                        to_numpy(std::move(best_scores)));
}

}  // namespace

void bind_fasttext(nb::module_& m) {
  nb::class_<fasttext::Model>(m, "FastTextModel")
      .def(nb::new_(&read_model), nb::arg("descriptor"), nb::arg("size"))
      .def_prop_ro("labels", &labels)
      .def_prop_ro("fingerprint", &fasttext::Model::fingerprint)
      .def("score", &score, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("wanted").noconvert(),
           nb::arg("join_lines"));
}

}  // namespace krill::bindings
