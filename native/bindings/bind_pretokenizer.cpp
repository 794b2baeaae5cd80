#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "tokenizer/characters.hpp"
#include "tokenizer/pretokenizer.hpp"

namespace krill::bindings {

namespace {

using tokenizer::PreTokenizer;
using tokenizer::PreTokenizerCutter;
using tokenizer::Rewrite;

struct BoundStep {
  PreTokenizer::Item item;
};

tokenizer::Behavior behavior_of(const std::string& name) {
  const auto behavior = tokenizer::behavior_named(name);
  if (!behavior) throw std::invalid_argument("no behavior is named `" + name + "`");
  return *behavior;
}

BoundStep words_of(const std::string& name) {
  const auto pattern = text::pattern_named(name);
  if (!pattern) throw std::invalid_argument("no pattern is named `" + name + "`");
  return {tokenizer::make_words(*pattern)};
}

// Nothing where only the letters themselves can be cut.
std::optional<BoundStep> over_letters(const BoundStep& step) {
  const auto* const cut = std::get_if<tokenizer::StepPtr>(&step.item);
  auto over = cut ? (*cut)->over_letters() : nullptr;
  if (!over) return std::nullopt;
  return BoundStep{std::move(over)};
}

BoundStep rewrite_of(const std::string& replacement, const std::string& prefix, const std::string& where,
                     bool takes_spaces) {
  Rewrite rewrite{replacement, prefix, Rewrite::Where::nowhere, takes_spaces};
  if (where == "first") {
    rewrite.where = Rewrite::Where::at_start;
  } else if (where == "always") {
    rewrite.where = Rewrite::Where::everywhere;
  } else if (where != "never") {
    throw std::invalid_argument("no prepend scheme is named `" + where + "`");
  }
  return {rewrite};
}

std::shared_ptr<PreTokenizer> pre_tokenizer_of(const std::vector<BoundStep>& steps) {
  std::vector<PreTokenizer::Item> items;
  for (const BoundStep& step : steps) items.push_back(step.item);
  return std::make_shared<PreTokenizer>(std::move(items));
}

// The text as its words have it, where they end, and what each byte of it stands for.
nb::tuple cut_all(const std::shared_ptr<PreTokenizer>& pre_tokenizer, nb::handle data, bool is_start,
                  size_t capacity) {
  const ByteView bytes(data);
  if (bytes.size() >= PreTokenizerCutter::kTooLong) throw std::invalid_argument("a text is 2 GiB or longer");
  normalize::Text text;
  GrowingBuffer<uint32_t> ends;
  Buffer<uint32_t> origins = without_gil([&] {
    text.track(true);
    text.assign(bytes.data(), bytes.size());
    PreTokenizerCutter cutter(pre_tokenizer);
    cutter.prepare(text, is_start ? tokenizer::first_length(bytes.data(), bytes.size()) : 0);
    Buffer<uint32_t> some(std::max<size_t>(capacity, 1));
    for (size_t from = 0; from < text.size();) {
      const size_t count = cutter.cut(text.data(), text.size(), from, some.data(), some.size());
      ends.append(some.data(), count);
      from = some[count - 1] & ~PreTokenizerCutter::kDropped;
    }
    const normalize::Origin* const from = text.present_origins();
    Buffer<uint32_t> pairs(2 * text.size());
    for (size_t at = 0; at < text.size(); ++at) {
      pairs[2 * at] = from[at].begin;
      pairs[2 * at + 1] = from[at].end;
    }
    return pairs;
  });
  return nb::make_tuple(nb::bytes(text.data(), text.size()), to_numpy(std::move(ends)),
                        to_numpy(std::move(origins)));
}

}  // namespace

void bind_pretokenizer(nb::module_& m) {
  using namespace tokenizer;
  nb::class_<BoundStep>(m, "PreTokenizerStep")
      .def_static(
          "split",
          [](const std::string& regex, const std::string& behavior, bool invert) {
            return BoundStep{make_split(regex, behavior_of(behavior), invert)};
          },
          nb::arg("regex"), nb::arg("behavior"), nb::arg("invert"))
      .def_static(
          "split_string",
          [](const std::string& string, const std::string& behavior, bool invert) {
            return BoundStep{make_string_split(string, behavior_of(behavior), invert)};
          },
          nb::arg("string"), nb::arg("behavior"), nb::arg("invert"))
      .def_static("words", &words_of, nb::arg("pattern"))
      .def_static(
          "digits", [](bool individual) { return BoundStep{make_digits(individual)}; }, nb::arg("individual"))
      .def_static(
          "punctuation",
          [](const std::string& behavior) { return BoundStep{make_punctuation(behavior_of(behavior))}; },
          nb::arg("behavior"))
      .def_static("whitespace", [] { return BoundStep{make_whitespace()}; })
      .def_static("whitespace_split", [] { return BoundStep{make_whitespace_split()}; })
      .def_static("bert", [] { return BoundStep{make_bert()}; })
      .def_static("scripts", [] { return BoundStep{make_scripts()}; })
      .def_static(
          "fixed_length", [](size_t length) { return BoundStep{make_fixed_length(length)}; },
          nb::arg("length"))
      .def_static("rewrite", &rewrite_of, nb::arg("replacement"), nb::arg("prefix"), nb::arg("where"),
                  nb::arg("takes_spaces") = false)
      .def_static("letters", [] { return BoundStep{Rewrite{.letters = true}}; })
      .def("over_letters", &over_letters);
  nb::class_<PreTokenizer>(m, "PreTokenizer")
      .def(nb::new_(&pre_tokenizer_of), nb::arg("steps"))
      .def("cut", &cut_all, nb::arg("text"), nb::arg("is_start") = true, nb::arg("capacity") = size_t{4096})
      .def_prop_ro("held_bytes", &PreTokenizer::bytes);
}

}  // namespace krill::bindings
