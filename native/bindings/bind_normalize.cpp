#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "bindings/arrays.hpp"
#include "normalize/normalizer.hpp"

namespace krill::bindings {

namespace {

using normalize::Normalizer;
using normalize::NormalizerPtr;

// nanobind has no pointers to constant objects.
using BoundNormalizer = std::shared_ptr<Normalizer>;

BoundNormalizer bound(const NormalizerPtr& normalizer) {
  return std::const_pointer_cast<Normalizer>(normalizer);
}

void run(const Normalizer& normalizer, const ByteView& bytes, normalize::Text& text, bool tracked) {
  nb::gil_scoped_release release;
  text.track(tracked);
  text.assign(bytes.data(), bytes.size());
  normalizer.apply(text);
}

nb::bytes apply(const Normalizer& normalizer, nb::handle data) {
  const ByteView bytes(data);
  normalize::Text text;
  run(normalizer, bytes, text, false);
  return nb::bytes(text.data(), text.size());
}

nb::tuple apply_tracked(const Normalizer& normalizer, nb::handle data) {
  const ByteView bytes(data);
  normalize::Text text;
  run(normalizer, bytes, text, true);
  const normalize::Origin* origins = text.present_origins();
  Buffer<uint32_t> pairs(2 * text.size());
  for (size_t at = 0; at < text.size(); ++at) {
    pairs[2 * at] = origins[at].begin;
    pairs[2 * at + 1] = origins[at].end;
  }
  return nb::make_tuple(nb::bytes(text.data(), text.size()), to_numpy(std::move(pairs)));
}

bool leaves(const Normalizer& normalizer, nb::handle data) {
  const ByteView bytes(data);
  return without_gil([&] { return normalizer.leaves(bytes.data(), bytes.size()); });
}

std::string string_of(nb::handle data) {
  const ByteView bytes(data);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

BoundNormalizer sequence_of(const std::vector<BoundNormalizer>& steps) {
  return bound(normalize::make_sequence({steps.begin(), steps.end()}));
}

}  // namespace

void bind_normalize(nb::module_& m) {
  nb::class_<Normalizer>(m, "Normalizer")
      .def("apply", &apply, nb::arg("text"))
      .def("apply_tracked", &apply_tracked, nb::arg("text"))
      .def("leaves", &leaves, nb::arg("text"))
      .def_static(
          "form",
          [](bool compose, bool compatible) { return bound(normalize::make_form(compose, compatible)); },
          nb::arg("compose"), nb::arg("compatible"))
      .def_static("lowercase", [] { return bound(normalize::make_lowercase()); })
      .def_static(
          "strip", [](bool left, bool right) { return bound(normalize::make_strip(left, right)); },
          nb::arg("left"), nb::arg("right"))
      .def_static("strip_accents", [] { return bound(normalize::make_strip_accents()); })
      .def_static("nmt", [] { return bound(normalize::make_nmt()); })
      .def_static("byte_level", [] { return bound(normalize::make_byte_level()); })
      .def_static(
          "bert",
          [](bool clean, bool chinese, std::optional<bool> accents, bool lowercase) {
            return bound(normalize::make_bert(clean, chinese, accents, lowercase));
          },
          nb::arg("clean_text"), nb::arg("handle_chinese_chars"), nb::arg("strip_accents").none(),
          nb::arg("lowercase"))
      .def_static(
          "prepend", [](nb::handle prefix) { return bound(normalize::make_prepend(string_of(prefix))); },
          nb::arg("prefix"))
      .def_static(
          "replace",
          [](nb::handle pattern, nb::handle content) {
            return bound(normalize::make_replace(string_of(pattern), string_of(content)));
          },
          nb::arg("pattern"), nb::arg("content"))
      .def_static(
          "replace_regex",
          [](nb::handle pattern, nb::handle content) {
            return bound(normalize::make_replace_regex(string_of(pattern), string_of(content)));
          },
          nb::arg("pattern"), nb::arg("content"))
      .def_static(
          "precompiled",
          [](nb::handle charsmap) {
            const std::string bytes = string_of(charsmap);
            return bound(without_gil([&] { return normalize::make_precompiled(bytes); }));
          },
          nb::arg("charsmap"))
      .def_static("sequence", &sequence_of, nb::arg("steps"));
}

}  // namespace krill::bindings
