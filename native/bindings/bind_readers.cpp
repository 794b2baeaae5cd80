// JsonReader and TextReader as Python classes. Parsing releases the GIL; batches leave without a copy.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/arrays.hpp"
#include "bindings/errors.hpp"
#include "bindings/hashes.hpp"
#include "bindings/joined_columns.hpp"
#include "buffer.hpp"
#include "corpus/file_range.hpp"
#include "corpus/json_reader.hpp"
#include "corpus/separator.hpp"
#include "corpus/text_reader.hpp"
#include "dedup/hash.hpp"
#include "text/clean.hpp"
#include "text/pick.hpp"

namespace krill::bindings {

namespace {

// A reader belongs to one thread at a time; without the GIL Python no longer sees to that.
template <class Reader>
class Guarded {
 public:
  template <class Options>
  explicit Guarded(Options options) : reader_(std::move(options)) {}

  // Calls use(reader) without the GIL.
  template <class Use>
  auto apart(Use&& use) {
    const Hold hold(busy_);
    nb::gil_scoped_release without_gil;
    return use(reader_);
  }

  // Calls use(reader) for something so short that letting others have the GIL would take longer.
  template <class Use>
  auto at_once(Use&& use) {
    const Hold hold(busy_);
    return use(reader_);
  }

 private:
  class Hold {
   public:
    explicit Hold(std::atomic_flag& busy) : busy_(busy) {
      if (busy_.test_and_set(std::memory_order_acquire))
        throw std::runtime_error("the reader is in use by another thread");
    }
    ~Hold() { busy_.clear(std::memory_order_release); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    std::atomic_flag& busy_;
  };

  Reader reader_;
  std::atomic_flag busy_;
};

corpus::Bytes to_bytes(const nb::bytes& value) {
  const auto* data = static_cast<const uint8_t*>(value.data());
  return corpus::Bytes(data, data + value.size());
}

nb::dict to_dict(const corpus::Counts& counts) {
  nb::dict out;
  out["records"] = counts.records;
  out["malformed"] = counts.malformed;
  out["key_seen"] = counts.key_seen;
  out["not_text"] = counts.not_text;
  out["oversize"] = counts.oversize;
  out["oversize_split"] = counts.oversize_split;
  out["surrogates_removed"] = counts.surrogates_removed;
  return out;
}

nb::tuple to_tuple(corpus::DocumentBatch batch) {
  const nb::tuple carried = to_joined(std::move(batch.carried));
  return nb::make_tuple(to_numpy(std::move(batch.text.offsets)), to_numpy(std::move(batch.text.bytes)),
                        to_numpy(std::move(batch.text.null_mask)), to_numpy(std::move(batch.starts)), carried,
                        to_dict(batch.counts));
}

struct FileRange {
  uint64_t base;
  uint64_t start;
  uint64_t end;
};

// Whether a file may be no text in UTF-8: by bytes that are in no text, and signatures that are ASCII.
bool may_be_binary(const uint8_t* data, size_t size) {
  const auto begins = [&](std::string_view mark) {
    return size >= mark.size() && std::equal(mark.begin(), mark.end(), data);
  };
  const auto unusual = [](uint8_t byte) {
    return byte >= 0xf8 || (byte < ' ' && byte != '\t' && byte != '\n' && byte != '\r');
  };
  return begins("WARC/") || begins("BZh") || std::any_of(data, data + std::min<size_t>(size, 8), unusual);
}

// The bytes [start, end) of a file are all that the reader gets; returns what read_file_range does.
template <class Reader>
int feed_range(Reader& reader, const char* path, uint64_t start, uint64_t end) {
  Buffer<uint8_t> bytes(end - start);
  if (const int error = corpus::read_file_range(path, start, bytes.data(), bytes.size())) return error;
  reader.feed(bytes.data(), bytes.size(), start);
  reader.finish();
  return 0;
}

// Whether a file wants a second look: in none of its records is there a text, or it may be no text at all.
template <class Reader>
bool add_file(Reader& reader, const uint8_t* data, size_t size, uint64_t base, uint64_t start) {
  const corpus::Counts before = reader.counts();
  reader.begin_file(base);
  reader.feed(data, size, base + start);
  reader.finish();
  const corpus::Counts& after = reader.counts();
  const uint64_t read = (after.records - after.malformed) - (before.records - before.malformed);
  const bool binary = start == 0 && may_be_binary(data, size);
  return binary || (read > 0 && after.not_text - before.not_text == read);
}

struct FilesOutcome {
  size_t done = 0;
  int fault = 0;
  std::vector<size_t> suspects;
};

// Small files one after the other, through one buffer.
template <class Reader>
FilesOutcome add_files(Reader& reader, const std::vector<const char*>& paths, const FileRange* ranges) {
  FilesOutcome outcome;
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < paths.size(); ++i) {
    const FileRange& range = ranges[i];
    bytes.resize(range.end - range.start);
    outcome.done = i;
    outcome.fault = corpus::read_file_range(paths[i], range.start, bytes.data(), bytes.size());
    if (outcome.fault != 0) return outcome;
    if (add_file(reader, bytes.data(), bytes.size(), range.base, range.start)) outcome.suspects.push_back(i);
  }
  return outcome;
}

void check_range(uint64_t start, uint64_t end) {
  if (end < start) throw std::invalid_argument("a range ends before it begins");
}

void raise_fault(int fault, const char* path, uint64_t end) {
  if (fault == corpus::kFileTooShort) {
    PyErr_Format(PyExc_EOFError, "the file became shorter than %llu bytes while it was read",
                 static_cast<unsigned long long>(end));
    nb::raise_python_error();
  }
  if (fault != 0) {
    errno = fault;
    PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
    nb::raise_python_error();
  }
}

template <class Reader>
void read_range(Guarded<Reader>& self, const nb::bytes& name, uint64_t start, uint64_t end) {
  check_range(start, end);
  const char* const path = name.c_str();
  raise_fault(self.apart([&](Reader& reader) { return feed_range(reader, path, start, end); }), path, end);
}

template <class Reader>
std::vector<size_t> read_files(Guarded<Reader>& self, const std::vector<nb::bytes>& names, In<uint64_t> bases,
                               In<uint64_t> starts, In<uint64_t> ends) {
  if (bases.size() != names.size() || starts.size() != names.size() || ends.size() != names.size())
    throw std::invalid_argument("a base, a start and an end for each name");
  std::vector<const char*> paths;
  std::vector<FileRange> wanted;
  for (size_t i = 0; i < names.size(); ++i) {
    paths.push_back(names[i].c_str());
    wanted.push_back({bases(i), starts(i), ends(i)});
    check_range(wanted[i].start, wanted[i].end);
  }
  const FilesOutcome outcome =
      self.apart([&](Reader& reader) { return add_files(reader, paths, wanted.data()); });
  if (outcome.fault != 0) raise_fault(outcome.fault, paths[outcome.done], wanted[outcome.done].end);
  return outcome.suspects;
}

// The documents that cleaning left out, as they came.
struct DroppedDocuments {
  text::PickedColumn column;
  Buffer<uint64_t> starts;
  Buffer<uint8_t> nulls;
};

struct CleanDocuments {
  text::CleanColumn column;
  Buffer<uint64_t> starts;
  Buffer<dedup::Hash> hashes;
  corpus::Counts counts;
  DroppedDocuments dropped;
};

DroppedDocuments dropped_of(const corpus::DocumentBatch& batch, const text::TextColumn& raw,
                            const Buffer<int64_t>& kept) {
  Buffer<uint8_t> is_dropped(raw.rows);
  std::fill_n(is_dropped.data(), raw.rows, uint8_t{1});
  for (size_t row = 0; row < kept.size(); ++row) is_dropped[static_cast<size_t>(kept[row])] = 0;
  DroppedDocuments dropped{pick_texts(raw, is_dropped.data()), Buffer<uint64_t>(raw.rows - kept.size()),
                           Buffer<uint8_t>(raw.rows - kept.size())};
  size_t out = 0;
  for (size_t row = 0; row < raw.rows; ++row) {
    if (is_dropped[row] == 0) continue;
    dropped.starts[out] = batch.starts[row];
    dropped.nulls[out++] = batch.text.null_mask[row];
  }
  return dropped;
}

CleanDocuments cleaned(const corpus::DocumentBatch& batch, bool strip, int64_t min_chars) {
  const corpus::Rows& text = batch.text;
  const text::TextColumn raw{text.offsets.data(), text.null_mask.size(), text.bytes.data(),
                             text.bytes.size()};
  raw.check();
  text::CleanColumn column = clean(raw, text.null_mask.data(), strip, min_chars);
  const size_t rows = column.kept.size();
  Buffer<uint64_t> starts(rows);
  for (size_t row = 0; row < rows; ++row) starts[row] = batch.starts[static_cast<size_t>(column.kept[row])];
  Buffer<dedup::Hash> hashes =
      dedup::hash_documents({column.offsets.data(), rows, column.data.data(), column.data.size()}, 0);
  DroppedDocuments dropped = dropped_of(batch, raw, column.kept);
  return {std::move(column), std::move(starts), std::move(hashes), batch.counts, std::move(dropped)};
}

// Reading, parsing, cleaning and hashing are one call, since each hand-over of the GIL costs about as much as
// parsing 20 kB.
template <class Reader>
nb::tuple read_clean(Guarded<Reader>& self, const nb::bytes& name, uint64_t start, uint64_t end, bool strip,
                     int64_t min_chars) {
  check_range(start, end);
  const char* const path = name.c_str();
  int fault = 0;
  std::optional<CleanDocuments> found;
  self.apart([&](Reader& reader) {
    fault = feed_range(reader, path, start, end);
    if (fault == 0) found.emplace(cleaned(reader.take(), strip, min_chars));
  });
  raise_fault(fault, path, end);
  nb::dict counts = to_dict(found->counts);
  counts["too_short"] = found->column.counts.too_short;
  counts["invalid_utf8"] = found->column.counts.invalid_utf8;
  DroppedDocuments& dropped = found->dropped;
  return nb::make_tuple(
      to_numpy(std::move(found->column.offsets)), to_numpy(std::move(found->column.data)),
      to_numpy(std::move(found->starts)), to_numpy(std::move(found->hashes)), counts,
      nb::make_tuple(to_numpy(std::move(dropped.column.offsets)), to_numpy(std::move(dropped.column.data)),
                     to_numpy(std::move(dropped.starts)), to_numpy(std::move(dropped.nulls))));
}

template <class Reader>
void bind_shared(nb::class_<Guarded<Reader>>& type) {
  using Self = Guarded<Reader>;
  type.def(
          "feed",
          [](Self& self, nb::handle data, uint64_t offset) {
            const ByteView bytes(data);
            self.apart([&](Reader& reader) { reader.feed(bytes.data(), bytes.size(), offset); });
          },
          nb::arg("data"), nb::arg("offset"))
      .def("finish", [](Self& self) { self.apart([](Reader& reader) { reader.finish(); }); })
      .def(
          "add_file",
          [](Self& self, nb::handle data, uint64_t base, uint64_t start) {
            const ByteView bytes(data);
            return self.apart(
                [&](Reader& reader) { return add_file(reader, bytes.data(), bytes.size(), base, start); });
          },
          nb::arg("data"), nb::arg("base"), nb::arg("start"))
      .def("read_files", &read_files<Reader>, nb::arg("paths"), nb::arg("bases"), nb::arg("starts"),
           nb::arg("ends"))
      .def("read_range", &read_range<Reader>, nb::arg("path"), nb::arg("start"), nb::arg("end"))
      .def("read_clean", &read_clean<Reader>, nb::arg("path"), nb::arg("start"), nb::arg("end"),
           nb::arg("strip"), nb::arg("min_chars"))
      .def("take",
           [](Self& self) { return to_tuple(self.at_once([](Reader& reader) { return reader.take(); })); })
      .def_prop_ro(
          "pending_bytes",
          [](Self& self) { return self.at_once([](Reader& reader) { return reader.pending_bytes(); }); })
      .def_prop_ro("complete",
                   [](Self& self) { return self.at_once([](Reader& reader) { return reader.complete(); }); });
}

void bind_json_reader(nb::module_& m) {
  using Self = Guarded<corpus::JsonReader>;
  nb::class_<Self> type(m, "JsonReader");
  type.def(
      "__init__",
      [](Self* self, const nb::bytes& text_key, const std::vector<nb::bytes>& carry,
         size_t max_document_bytes, bool drop_oversize, bool skip_malformed, bool array, bool whole) {
        corpus::JsonOptions options{
            to_bytes(text_key), {}, max_document_bytes, drop_oversize, skip_malformed, array, whole};
        for (const nb::bytes& key : carry) options.carry.push_back(to_bytes(key));
        new (self) Self(std::move(options));
      },
      nb::arg("text_key"), nb::arg("carry"), nb::arg("max_document_bytes"), nb::arg("drop_oversize"),
      nb::arg("skip_malformed"), nb::arg("array"), nb::arg("whole") = false);
  bind_shared(type);
}

void bind_text_reader(nb::module_& m) {
  using Self = Guarded<corpus::TextReader>;
  nb::class_<Self> type(m, "TextReader");
  type.def(
      "__init__",
      [](Self* self, const nb::bytes& separator, size_t max_document_bytes, bool drop_oversize) {
        new (self) Self(corpus::TextOptions{to_bytes(separator), max_document_bytes, drop_oversize});
      },
      nb::arg("separator"), nb::arg("max_document_bytes"), nb::arg("drop_oversize"));
  bind_shared(type);
}

void bind_separator(nb::module_& m) {
  nb::class_<corpus::Separator>(m, "Separator")
      .def(
          "__init__",
          [](corpus::Separator* self, const nb::bytes& bytes) {
            new (self) corpus::Separator({reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()});
          },
          nb::arg("bytes"))
      .def_prop_ro("overlaps_itself", &corpus::Separator::overlaps_itself)
      .def(
          "next_certain",
          [](const corpus::Separator& self, nb::handle data, size_t begin) {
            const ByteView bytes(data);
            nb::gil_scoped_release release;
            return self.next_certain({bytes.data(), bytes.size()}, begin);
          },
          nb::arg("data"), nb::arg("begin"));
}

}  // namespace

void bind_readers(nb::module_& m) {
  bind_error<corpus::MalformedRecord>(
      m, "MalformedRecord", PyExc_ValueError, [](const corpus::MalformedRecord& error) {
        return nb::make_tuple(error.offset, error.at, nb::str(error.reason.c_str()));
      });
  bind_json_reader(m);
  bind_text_reader(m);
  bind_separator(m);
}

}  // namespace krill::bindings
