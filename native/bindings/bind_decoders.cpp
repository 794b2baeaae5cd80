#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string_view>

#include "bindings/arrays.hpp"
#include "tokenizer/decoders.hpp"

namespace krill::bindings {

namespace {

using tokenizer::Decoder;
using tokenizer::DecoderStep;

// nanobind has no pointers to constant objects.
using BoundStep = std::shared_ptr<DecoderStep>;

BoundStep bound(const tokenizer::DecoderStepPtr& step) { return std::const_pointer_cast<DecoderStep>(step); }

nb::str decode(const Decoder& decoder, const nb::list& tokens) {
  std::vector<std::string_view> views;
  views.reserve(tokens.size());
  for (nb::handle token : tokens) {
    Py_ssize_t size = 0;
    const char* bytes = PyUnicode_AsUTF8AndSize(token.ptr(), &size);
    if (bytes == nullptr) nb::raise_python_error();
    views.emplace_back(bytes, static_cast<size_t>(size));
  }
  const std::string text = without_gil([&] { return decoder.decode(views); });
  return nb::str(text.data(), text.size());
}

}  // namespace

void bind_decoders(nb::module_& m) {
  nb::class_<DecoderStep>(m, "DecoderStep")
      .def_static("byte_level", [] { return bound(tokenizer::byte_level_decoder()); })
      .def_static("byte_fallback", [] { return bound(tokenizer::byte_fallback_decoder()); })
      .def_static("fuse", [] { return bound(tokenizer::fuse_decoder()); })
      .def_static(
          "replace",
          [](std::string pattern, std::string content) {
            return bound(tokenizer::replace_decoder(std::move(pattern), std::move(content)));
          },
          nb::arg("pattern"), nb::arg("content"))
      .def_static(
          "replace_regex",
          [](const std::string& pattern, std::string content) {
            return bound(tokenizer::replace_regex_decoder(pattern, std::move(content)));
          },
          nb::arg("pattern"), nb::arg("content"))
      .def_static(
          "strip",
          [](std::string content, size_t start, size_t stop) {
            return bound(tokenizer::strip_decoder(std::move(content), start, stop));
          },
          nb::arg("content"), nb::arg("start"), nb::arg("stop"))
      .def_static(
          "metaspace",
          [](std::string replacement, bool drops_first) {
            return bound(tokenizer::metaspace_decoder(std::move(replacement), drops_first));
          },
          nb::arg("replacement"), nb::arg("drops_first"))
      .def_static(
          "word_piece",
          [](std::string prefix, bool cleanup) {
            return bound(tokenizer::word_piece_decoder(std::move(prefix), cleanup));
          },
          nb::arg("prefix"), nb::arg("cleanup"))
      .def_static(
          "bpe", [](std::string suffix) { return bound(tokenizer::bpe_decoder(std::move(suffix))); },
          nb::arg("suffix"))
      .def_static(
          "ctc",
          [](std::string pad_token, std::string word_delimiter_token, bool cleanup) {
            return bound(
                tokenizer::ctc_decoder(std::move(pad_token), std::move(word_delimiter_token), cleanup));
          },
          nb::arg("pad_token"), nb::arg("word_delimiter_token"), nb::arg("cleanup"));
  nb::class_<Decoder>(m, "Decoder")
      .def(nb::init<>())
      .def(
          "__init__",
          [](Decoder* self, const std::vector<BoundStep>& steps) {
            new (self) Decoder(std::vector<tokenizer::DecoderStepPtr>(steps.begin(), steps.end()));
          },
          nb::arg("steps"))
      .def("decode", &decode, nb::arg("tokens"));
}

}  // namespace krill::bindings
