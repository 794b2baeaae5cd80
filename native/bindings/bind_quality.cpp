#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "quality/filters.hpp"
#include "quality/quality.hpp"
#include "quality/sentences.hpp"
#include "quality/words.hpp"

namespace krill::bindings {

namespace {

using quality::Filter;
using quality::Quality;
using quality::Span;

// The thresholds of one filter, by their names in krill.config.filters.
class Options {
 public:
  explicit Options(nb::dict values) : values_(std::move(values)) {}

  template <class T>
  T get(const char* name) const {
    if (!values_.contains(name)) throw nb::key_error(name);
    return nb::cast<T>(values_[name]);
  }

  // A number, or `none` where Python has None or -1.
  uint64_t limit(const char* name, uint64_t none) const {
    if (is_none(name)) return none;
    const auto number = get<int64_t>(name);
    return number == -1 ? none : static_cast<uint64_t>(number);
  }

  // A threshold, 0 where Python has None.
  double number(const char* name) const { return is_none(name) ? 0 : get<double>(name); }

  bool is_none(const char* name) const {
    if (!values_.contains(name)) throw nb::key_error(name);
    return nb::object(values_[name]).is_none();
  }

 private:
  nb::dict values_;
};

std::unique_ptr<Filter> gopher_quality(const Options& of) {
  return quality::make_gopher_quality(
      {of.limit("min_doc_words", 0), of.limit("max_doc_words", 0), of.number("min_avg_word_length"),
       of.number("max_avg_word_length"), of.number("max_symbol_word_ratio"),
       of.number("max_bullet_lines_ratio"), of.number("max_ellipsis_lines_ratio"),
       of.number("max_non_alpha_words_ratio"), of.limit("min_stop_words", 0),
       of.get<std::vector<std::string>>("stop_words")});
}

std::unique_ptr<Filter> gopher_repetition(const Options& of) {
  using NGrams = quality::GopherRepetitionLimits::NGrams;
  quality::GopherRepetitionLimits limits{of.number("dup_line_frac"),      of.number("dup_para_frac"),
                                         of.number("dup_line_char_frac"), of.number("dup_para_char_frac"),
                                         of.get<NGrams>("top_n_grams"),   of.get<NGrams>("dup_n_grams")};
  for (const NGrams* grams : {&limits.top_n_grams, &limits.dup_n_grams})
    for (const auto& [n, limit] : *grams)
      if (n == 0) throw std::invalid_argument("an n-gram has at least one word");
  return quality::make_gopher_repetition(std::move(limits));
}

std::unique_ptr<Filter> c4(const Options& of) {
  return quality::make_c4({of.get<bool>("split_paragraph"), of.get<bool>("remove_citations"),
                           of.get<bool>("filter_no_terminal_punct"), of.limit("min_num_sentences", 0),
                           of.limit("min_words_per_line", 0), of.limit("max_word_length", UINT64_MAX),
                           of.get<bool>("filter_lorem_ipsum"), of.get<bool>("filter_javascript"),
                           of.get<bool>("filter_curly_bracket"), of.get<bool>("filter_policy")});
}

std::optional<std::vector<std::string>> stop_chars(const Options& of) {
  if (of.is_none("stop_chars")) return std::nullopt;
  return of.get<std::vector<std::string>>("stop_chars");
}

std::unique_ptr<Filter> fineweb(const Options& of) {
  return quality::make_fineweb({of.number("line_punct_thr"), of.get<bool>("line_punct_exclude_zero"),
                                stop_chars(of), of.number("short_line_thr"),
                                of.get<uint64_t>("short_line_length"), of.number("char_duplicates_ratio"),
                                of.number("new_line_ratio")});
}

std::unique_ptr<Filter> lengths(const Options& of) {
  constexpr uint64_t kNone = quality::LengthLimits::kNone;
  return quality::make_lengths(
      {of.get<uint64_t>("min_words"), of.limit("max_words", kNone), of.limit("max_chars", kNone)});
}

std::unique_ptr<Filter> make_filter(const std::string& name, const Options& of) {
  if (name == "gopher_quality") return gopher_quality(of);
  if (name == "gopher_repetition") return gopher_repetition(of);
  if (name == "c4") return c4(of);
  if (name == "fineweb") return fineweb(of);
  if (name == "lengths") return lengths(of);
  const auto min_chars = [&] { return of.get<uint64_t>("min_chars"); };
  if (name == "repeated_lines") return quality::make_repeated(quality::Repeated::lines, min_chars());
  if (name == "repeated_paragraphs")
    return quality::make_repeated(quality::Repeated::paragraphs, min_chars());
  throw std::invalid_argument("there is no filter " + name);
}

void make_quality(Quality* self, const std::vector<std::pair<std::string, nb::dict>>& sections) {
  std::vector<std::unique_ptr<Filter>> filters;
  for (const auto& [name, options] : sections) filters.push_back(make_filter(name, Options(options)));
  new (self) Quality(std::move(filters));
}

nb::list statistics_of(const Quality& self) {
  nb::list names;
  for (const quality::Statistic& statistic : self.statistics())
    names.append(nb::make_tuple(statistic.name, statistic.is_count));
  return names;
}

nb::dict take_line_counts(const Quality& self) {
  nb::dict counted;
  const quality::LineCounts counts = self.take_line_counts();
  for (size_t i = 0; i < counts.size(); ++i)
    if (counts[i] != 0) counted[quality::kLineFates[i]] = counts[i];
  return counted;
}

nb::tuple judge(const Quality& self, const In<int64_t>& offsets, nb::handle data, bool statistics) {
  const ByteView bytes(data);
  const text::TextColumn column = text_column(offsets, bytes);
  quality::Verdicts verdicts = without_gil([&] { return self.judge(column, statistics); });
  nb::list values;
  for (Buffer<double>& measured : verdicts.values) values.append(to_numpy(std::move(measured)));
  nb::object text = nb::none();
  if (verdicts.text) {
    text =
        nb::make_tuple(to_numpy(std::move(verdicts.text->offsets)), to_numpy(std::move(verdicts.text->data)));
  }
  return nb::make_tuple(to_numpy(std::move(verdicts.codes)), values, text);
}

// Begins and sizes in bytes, as one array of pairs laid end to end.
template <class Split>
Out<uint32_t> spans(nb::handle data, Split split) {
  const ByteView bytes(data);
  if (bytes.size() >= 0xffffffffu) throw std::invalid_argument("a document is 4 GiB or longer");
  GrowingBuffer<Span> found;
  {
    nb::gil_scoped_release release;
    split(bytes.data(), bytes.size(), [&](Span span) { found.push_back(span); });
    found.shrink_to_fit();
  }
  const size_t numbers = 2 * found.size();
  auto* flat = reinterpret_cast<uint32_t*>(found.data());
  return Out<uint32_t>(flat, {numbers}, owner_of(std::move(found)));
}

Out<uint32_t> word_spans(nb::handle data) {
  return spans(data,
               [](const uint8_t* text, size_t size, auto emit) { quality::split_words(text, size, emit); });
}

Out<uint32_t> sentence_spans(nb::handle data) {
  return spans(
      data, [](const uint8_t* text, size_t size, auto emit) { quality::split_sentences(text, size, emit); });
}

}  // namespace

void bind_quality(nb::module_& m) {
  nb::class_<Quality>(m, "Quality")
      .def("__init__", &make_quality, nb::arg("sections"))
      .def_prop_ro("reasons", &Quality::reasons)
      .def_prop_ro("statistics", &statistics_of)
      .def("scratch_bytes", &Quality::scratch_bytes, nb::arg("max_document_bytes"), nb::arg("threads"))
      .def("expected_bytes", &Quality::expected_bytes, nb::arg("document_bytes"))
      .def("take_line_counts", &take_line_counts)
      .def("judge", &judge, nb::arg("offsets").noconvert(), nb::arg("data"), nb::arg("statistics"));
  m.def("word_spans", &word_spans, nb::arg("data"));
  m.def("sentence_spans", &sentence_spans, nb::arg("data"));
}

}  // namespace krill::bindings
