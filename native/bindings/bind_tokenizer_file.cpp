// A tokenizer.json, read in blocks into the arrays of its model.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "bindings/arrays.hpp"
#include "tokenizer/tokenizer_file.hpp"
#include "tokenizer/vocabulary_tables.hpp"

namespace krill::bindings {

namespace {

class BoundTokenizerFile {
 public:
  explicit BoundTokenizerFile(size_t most_rest) : file_(most_rest) {}

  void feed(nb::handle data) {
    const ByteView block(data);
    without_gil([&] { file_.feed(span_of(block)); });
  }

  void finish() {
    without_gil([&] { file_.finish(); });
  }

  nb::bytes sections() const { return nb::bytes(file_.rest().data(), file_.rest().size()); }

  nb::tuple arrays(bool byte_level) {
    if (tables_) throw std::invalid_argument("the arrays were taken already");
    without_gil([&] { tables_ = std::make_unique<tokenizer::VocabularyTables>(file_, byte_level); });
    return nb::make_tuple(to_numpy(std::move(tables_->tokens)), to_numpy(std::move(tables_->offsets)),
                          to_numpy(std::move(tables_->flags)), to_numpy(std::move(file_.scores)),
                          to_numpy(std::move(tables_->merges)));
  }

  nb::list added() const {
    nb::list result;
    for (const tokenizer::NumberedToken& token : tables().added()) {
      const std::span<const uint8_t> text = file_.added[token.place];
      const auto has = [&](tokenizer::AddedFlag flag) { return (token.flags & flag) != 0; };
      result.append(nb::make_tuple(nb::str(reinterpret_cast<const char*>(text.data()), text.size()), token.id,
                                   has(tokenizer::kSingleWord), has(tokenizer::kLstrip),
                                   has(tokenizer::kRstrip), has(tokenizer::kNormalized),
                                   has(tokenizer::kSpecialToken)));
    }
    return result;
  }

  nb::object clash() const {
    const std::string& text = tables().clash();
    return text.empty() ? nb::none() : nb::object(nb::str(text.data(), text.size()));
  }

  std::optional<uint32_t> find(nb::handle text) const {
    const ByteView bytes(text);
    return tables().find(span_of(bytes));
  }

  size_t entries() const { return tables().entries(); }
  bool is_scored() const { return file_.is_scored; }

 private:
  const tokenizer::VocabularyTables& tables() const {
    if (!tables_) throw std::invalid_argument("the arrays were not taken yet");
    return *tables_;
  }

  tokenizer::TokenizerFile file_;
  std::unique_ptr<tokenizer::VocabularyTables> tables_;
};

}  // namespace

void bind_tokenizer_file(nb::module_& m) {
  nb::class_<BoundTokenizerFile>(m, "TokenizerFile")
      .def(nb::init<size_t>(), nb::arg("most_sections"))
      .def("feed", &BoundTokenizerFile::feed, nb::arg("data"))
      .def("finish", &BoundTokenizerFile::finish)
      .def("sections", &BoundTokenizerFile::sections)
      .def("is_scored", &BoundTokenizerFile::is_scored)
      .def("arrays", &BoundTokenizerFile::arrays, nb::arg("byte_level"))
      .def("entries", &BoundTokenizerFile::entries)
      .def("added", &BoundTokenizerFile::added)
      .def("clash", &BoundTokenizerFile::clash)
      .def("find", &BoundTokenizerFile::find, nb::arg("text"));
}

}  // namespace krill::bindings
