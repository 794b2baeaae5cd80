#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include "bindings/arrays.hpp"
#include "bpe/counter.hpp"

namespace krill::bindings {

namespace {

using SegmentsIn = nb::ndarray<const uint64_t, nb::shape<-1, 3>, nb::c_contig, nb::device::cpu>;
using SegmentsOut = nb::ndarray<nb::numpy, uint64_t, nb::shape<-1, 3>>;
static_assert(sizeof(bpe::Segment) == 3 * sizeof(uint64_t));

class Counter {
 public:
  Counter(const std::string& pattern, const nb::list& boundaries, bool lines, size_t cap_bytes,
          unsigned threads, const std::string& spill_path, const SegmentsIn& segments, uint64_t spill_size) {
    bpe::WordCounter::Options options;
    if (!pattern.empty()) {
      options.pattern = text::pattern_named(pattern);
      if (!options.pattern) throw std::invalid_argument("no pattern has this name");
    }
    for (const nb::handle token : boundaries) {
      const ByteView bytes(token);
      options.boundaries.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    }
    options.lines = lines;
    options.cap_bytes = cap_bytes;
    options.threads = threads;
    options.spill_path = spill_path;
    const auto* first = reinterpret_cast<const bpe::Segment*>(segments.data());
    counter_ = std::make_unique<bpe::WordCounter>(
        std::move(options), std::vector<bpe::Segment>(first, first + segments.shape(0)), spill_size);
  }

  void add(const In<int64_t>& offsets, nb::handle data) {
    const ByteView bytes(data);
    const text::TextColumn column = text_column(offsets, bytes);
    nb::gil_scoped_release release;
    counter_->add(column);
  }

  void add_words(const In<uint64_t>& ends, nb::handle data) {
    const ByteView bytes(data);
    for (size_t word = 0; word < ends.size(); ++word)
      if (ends.data()[word] > bytes.size() || (word > 0 && ends.data()[word] < ends.data()[word - 1]))
        throw std::invalid_argument("ends must never fall and lie within the data");
    nb::gil_scoped_release release;
    counter_->add_words(bytes.data(), ends.data(), ends.size());
  }

  SegmentsOut checkpoint() {
    const std::vector<bpe::Segment>* segments;
    {
      nb::gil_scoped_release release;
      segments = &counter_->checkpoint();
    }
    Buffer<uint64_t> flat(segments->size() * 3);
    if (!segments->empty())
      std::memcpy(flat.data(), segments->data(), segments->size() * sizeof(bpe::Segment));
    uint64_t* data = flat.data();
    return SegmentsOut(data, {segments->size(), 3}, owner_of(std::move(flat)));
  }

  nb::tuple write_counts(const std::string& path) {
    bpe::InventoryTotals totals;
    {
      nb::gil_scoped_release release;
      totals = counter_->write_counts(path);
    }
    Buffer<uint64_t> bytes(256);
    std::copy(totals.byte_counts.begin(), totals.byte_counts.end(), bytes.data());
    return nb::make_tuple(totals.words, totals.occurrences, totals.bytes, to_numpy(std::move(bytes)));
  }

  size_t held_bytes() const { return counter_->held_bytes(); }
  uint64_t spilled_bytes() const { return counter_->spilled_bytes(); }

 private:
  std::unique_ptr<bpe::WordCounter> counter_;
};

}  // namespace

void bind_counter(nb::module_& m) {
  nb::class_<Counter>(m, "WordCounter")
      .def(nb::init<const std::string&, const nb::list&, bool, size_t, unsigned, const std::string&,
                    const SegmentsIn&, uint64_t>(),
           nb::arg("pattern"), nb::arg("boundaries"), nb::arg("lines"), nb::arg("cap_bytes"),
           nb::arg("threads"), nb::arg("spill_path"), nb::arg("segments").noconvert(), nb::arg("spill_size"))
      .def("add", &Counter::add, nb::arg("offsets").noconvert(), nb::arg("data"))
      .def("add_words", &Counter::add_words, nb::arg("ends").noconvert(), nb::arg("data"))
      .def("checkpoint", &Counter::checkpoint)
      .def("write_counts", &Counter::write_counts, nb::arg("path"))
      .def_prop_ro("held_bytes", &Counter::held_bytes)
      .def_prop_ro("spilled_bytes", &Counter::spilled_bytes);
}

}  // namespace krill::bindings
