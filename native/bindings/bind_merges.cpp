#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bindings/arrays.hpp"
#include "bpe/merge_trainer.hpp"
#include "bpe/records.hpp"

namespace krill::bindings {

namespace {

using MergesOut = nb::ndarray<nb::numpy, uint32_t, nb::shape<-1, 3>>;

class Trainer {
 public:
  Trainer(const std::string& inventory, const In<int32_t>& byte_ids, const nb::list& tokens,
          size_t vocab_size, uint64_t min_frequency, uint64_t max_token_length, bool greatest,
          size_t cap_bytes, const std::string& scratch_path) {
    if (byte_ids.size() != 256) throw std::invalid_argument("there must be one id for each of 256 bytes");
    bpe::MergeOptions options;
    std::copy_n(byte_ids.data(), 256, options.byte_ids.begin());
    for (const nb::handle token : tokens) {
      if (token.is_none()) {
        options.tokens.emplace_back();
      } else {
        const ByteView bytes(token);
        options.tokens.emplace_back(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
      }
    }
    options.vocab_size = vocab_size;
    options.min_frequency = min_frequency;
    options.max_token_length = max_token_length;
    options.greatest = greatest;
    options.cap_bytes = cap_bytes;
    options.scratch_path = scratch_path;
    nb::gil_scoped_release release;
    trainer_ = bpe::make_merge_trainer(inventory, std::move(options));
  }

  size_t run(size_t most, double seconds) {
    nb::gil_scoped_release release;
    return trainer_->run(most, std::chrono::duration<double>(seconds));
  }

  MergesOut merges() const {
    const std::vector<bpe::Merge>& merges = trainer_->merges();
    static_assert(sizeof(bpe::Merge) == 3 * sizeof(uint32_t));
    Buffer<uint32_t> flat(merges.size() * 3);
    if (!merges.empty()) std::memcpy(flat.data(), merges.data(), merges.size() * sizeof(bpe::Merge));
    uint32_t* data = flat.data();
    return MergesOut(data, {merges.size(), 3}, owner_of(std::move(flat)));
  }

  nb::list tokens() const {
    nb::list result;
    for (const std::string& token : trainer_->tokens()) result.append(nb::bytes(token.data(), token.size()));
    return result;
  }

  nb::dict statistics() const {
    const bpe::MergeStatistics found = trainer_->statistics();
    nb::dict result;
    result["symbols"] = found.symbols;
    result["rebuilds"] = found.rebuilds;
    result["postings"] = found.postings;
    result["scans"] = found.scans;
    result["on_disk"] = found.on_disk;
    result["word_bytes"] = found.word_bytes;
    result["posted_pairs"] = found.posted_pairs;
    result["ample_bytes"] = found.ample_bytes;
    result["planned_bytes"] = found.planned_bytes;
    return result;
  }

 private:
  std::unique_ptr<bpe::MergeTrainer> trainer_;
};

}  // namespace

void bind_merges(nb::module_& m) {
  nb::exception<bpe::DamagedFile>(m, "DamagedFile", PyExc_ValueError);
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const bpe::FileFault& fault) {
      // As Python's own OSError, with errno and file name.
      errno = fault.code();
      PyErr_SetFromErrnoWithFilename(PyExc_OSError, fault.path().c_str());
    }
  });
  nb::class_<Trainer>(m, "MergeTrainer")
      .def(nb::init<const std::string&, const In<int32_t>&, const nb::list&, size_t, uint64_t, uint64_t, bool,
                    size_t, const std::string&>(),
           nb::arg("inventory"), nb::arg("byte_ids").noconvert(), nb::arg("tokens"), nb::arg("vocab_size"),
           nb::arg("min_frequency"), nb::arg("max_token_length"), nb::arg("greatest"), nb::arg("cap_bytes"),
           nb::arg("scratch_path"))
      .def("run", &Trainer::run, nb::arg("most"), nb::arg("seconds"))
      .def("merges", &Trainer::merges)
      .def("tokens", &Trainer::tokens)
      .def("statistics", &Trainer::statistics);
}

}  // namespace krill::bindings
