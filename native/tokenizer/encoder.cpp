#include "tokenizer/encoder.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

#include "tokenizer/characters.hpp"
#include "tokenizer/offsets.hpp"

namespace krill::tokenizer {

namespace {

// Bytes of a section that say where its first character went.
constexpr size_t kBeginning = 64;

struct Bytes {
  size_t begin;
  size_t end;
};

// An added token without the whitespace that it took, unless it is nothing else.
Bytes bare(const uint8_t* text, size_t begin, size_t end) {
  const size_t before = whitespace_at_begin(text + begin, end - begin);
  if (before == end - begin) return {begin, end};
  return {begin + before, end - whitespace_at_end(text + begin, end - begin)};
}

}  // namespace

uint32_t largest_id(const EncoderParts& parts) {
  uint32_t largest = parts.model->largest_id();
  for (const AddedToken& token : parts.added) largest = std::max(largest, token.id);
  for (const auto* ids : {&parts.prefix, &parts.suffix})
    for (const uint32_t id : *ids) largest = std::max(largest, id);
  return largest;
}

template <class Id>
struct Encoder<Id>::Worker {
  Worker(const EncoderParts& parts, size_t cache_bytes, std::mutex& long_words)
      : Worker(parts, cutter_of(parts.steps), cache_bytes, long_words) {
    if (parts.unmarked) unmarked_cutter = cutter_of(*parts.unmarked);
  }

  void track(bool wanted) {
    section.track(wanted);
    part.track(wanted);
  }

  PreTokenizerCutter* pre_tokenizer;  // null: a part is one word
  // Of the unmarked steps, to prepare parts; the words of these are cut as those of the others.
  std::unique_ptr<PreTokenizerCutter> unmarked_cutter;
  WordEncoder<Id> words;
  normalize::Text section;
  normalize::Text part;

 private:
  static std::unique_ptr<PreTokenizerCutter> cutter_of(const Steps& steps) {
    return steps.pre_tokenizer ? std::make_unique<PreTokenizerCutter>(steps.pre_tokenizer) : nullptr;
  }

  Worker(const EncoderParts& parts, std::unique_ptr<PreTokenizerCutter> cutter, size_t cache_bytes,
         std::mutex& long_words)
      : pre_tokenizer(cutter.get()),
        words(*parts.model,
              cutter ? std::unique_ptr<WordCutter>(std::move(cutter)) : std::make_unique<WholeText>(),
              cache_bytes, long_words) {}
};

// A worker for as long as a call lasts.
template <class Id>
class Encoder<Id>::Lease {
 public:
  explicit Lease(Encoder& owner) : owner_(owner) {
    std::unique_lock lock(owner.pool_lock_);
    owner.given_back_.wait(lock, [&] { return !owner.idle_.empty() || owner.made_ < owner.workers_.count; });
    if (!owner.idle_.empty()) {
      worker_ = std::move(owner.idle_.back());
      owner.idle_.pop_back();
      return;
    }
    worker_ = std::make_unique<Worker>(owner.parts_, owner.workers_.cache_bytes, owner.long_words_);
    ++owner.made_;
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() {
    {
      const std::lock_guard lock(owner_.pool_lock_);
      owner_.statistics_.add(worker_->words.take_statistics());
      owner_.idle_.push_back(std::move(worker_));
    }
    owner_.given_back_.notify_one();
  }

  Worker& operator*() const { return *worker_; }

 private:
  Encoder& owner_;
  std::unique_ptr<Worker> worker_;
};

template <class Id>
Encoder<Id>::Encoder(EncoderParts parts, EncoderWorkers workers)
    : parts_(std::move(parts)), added_(parts_.added), workers_(workers) {
  if (workers_.count == 0) throw std::invalid_argument("there must be a worker");
  if (largest_id(parts_) > std::numeric_limits<Id>::max())
    throw std::invalid_argument("an id is too large for its type");
  if (parts_.unmarked && (!parts_.model->reads_spaces_as_marks() || added_.has_normalized()))
    throw std::invalid_argument("unmarked words of a tokenizer that needs marks");
  idle_.reserve(workers_.count);
}

template <class Id>
Encoder<Id>::~Encoder() = default;

// A token for every three bytes is more than most texts have.
template <class Id>
size_t Encoder<Id>::likely_ids(size_t rows, size_t bytes) const {
  return rows * (parts_.prefix.size() + parts_.suffix.size() + 1) + bytes / 3;
}

template <class Id>
EncodedBatch<Id> Encoder<Id>::encode(const text::TextColumn& documents, std::optional<uint32_t> eos) {
  if (eos && *eos > std::numeric_limits<Id>::max())
    throw std::invalid_argument("eos is too large for its type");
  const Lease worker(*this);
  const size_t likely = likely_ids(documents.rows, documents.total());
  return encode_rows(*worker, documents.rows, GrowingBuffer<Id>(likely), eos, [&](size_t row) {
    const uint8_t* const begin = documents.begin(row);
    return text::Utf8{begin, documents.size(row), documents.readable(row)};
  });
}

template <class Id>
EncodedBatch<uint32_t> Encoder<Id>::encode(Strings& documents) {
  const Lease worker(*this);
  const size_t likely = likely_ids(documents.rows(), documents.characters());
  return encode_rows(*worker, documents.rows(), GrowingBuffer<uint32_t>::large(likely), {}, [&](size_t row) {
    const text::Utf8 text = documents.at(row);
    if (text.size >= 0xffffffffu) throw std::invalid_argument("a document is 4 GiB or longer");
    return text;
  });
}

template <class Id>
template <class Out, class DocumentAt>
EncodedBatch<Out> Encoder<Id>::encode_rows(Worker& worker, size_t rows, GrowingBuffer<Out> ids,
                                           std::optional<uint32_t> eos, DocumentAt&& document_at) const {
  worker.track(false);
  EncodedBatch<Out> batch{std::move(ids), Buffer<uint32_t>(rows)};
  for (size_t row = 0; row < rows; ++row) {
    const size_t begin = batch.ids.size();
    encode_document(worker, document_at(row), batch.ids);
    if (eos) batch.ids.push_back(static_cast<Out>(*eos));
    batch.lengths[row] = static_cast<uint32_t>(batch.ids.size() - begin);
  }
  return batch;
}

template <class Id>
template <class Out>
void Encoder<Id>::encode_document(Worker& worker, const text::Utf8& text, GrowingBuffer<Out>& ids) const {
  for (const uint32_t id : parts_.prefix) ids.push_back(static_cast<Out>(id));
  try {
    added_.split_written(text.data, text.size, [&](size_t begin, size_t end, uint32_t id) {
      if (id != Model::kNoToken) return worker.words.add(static_cast<Id>(id));
      worker.section.assign(text.data + begin, end - begin, text.readable - begin);
      split_section(worker, begin == 0, [&](size_t, size_t, uint32_t found) {
        const normalize::Text& part = worker.part;
        if (found == Model::kNoToken)
          worker.words.encode(part.data(), part.size(), part.readable(), ids);
        else
          worker.words.add(static_cast<Id>(found));
      });
    });
    worker.words.finish(ids);
  } catch (...) {
    worker.words.discard();
    throw;
  }
  for (const uint32_t id : parts_.suffix) ids.push_back(static_cast<Out>(id));
}

// The library asks where in the input a piece comes from, and normalizers may remove what was first, or make
// several characters of it. The beginning of a section is normalised once more, with its origins.
template <class Id>
size_t Encoder<Id>::beginning(Worker& worker, const Steps& steps, const uint8_t* text, size_t size) const {
  if (!steps.pre_tokenizer || !steps.pre_tokenizer->asks_for_start()) return 0;
  if (!worker.section.changed()) return first_length(text, size);
  worker.part.track(true);
  size_t some = std::min<size_t>(size, kBeginning);
  while (some < size && (text[some] & 0xc0) == 0x80) ++some;
  worker.part.assign(text, some);
  steps.normalizer->apply(worker.part);
  if (worker.part.size() == 0 && some < size) {
    worker.part.assign(text, size);
    steps.normalizer->apply(worker.part);
  }
  const normalize::Origin* const origins = worker.part.present_origins();
  size_t first = 0;
  while (first < worker.part.size() && origins[first].begin == 0) ++first;
  worker.part.track(worker.section.tracked());
  return first;
}

template <class Id>
template <class Use, class IsText>
void Encoder<Id>::split_section(Worker& worker, bool is_start, Use&& use, const IsText& is_text) const {
  normalize::Text& section = worker.section;
  const uint8_t* const text = section.data();
  const size_t size = section.size();
  // Offsets are those of the text with its marks.
  const bool is_unmarked = parts_.unmarked && !section.tracked();
  const Steps& steps = is_unmarked ? *parts_.unmarked : parts_.steps;
  PreTokenizerCutter* const cutter = is_unmarked ? worker.unmarked_cutter.get() : worker.pre_tokenizer;
  if (steps.normalizer) steps.normalizer->apply(section);
  const size_t start = is_start ? beginning(worker, steps, text, size) : 0;
  const auto use_part = [&](size_t begin, size_t end, uint32_t id) {
    if (id == Model::kNoToken) {
      worker.part.assign(section.data() + begin, end - begin, section.readable() - begin);
      if (cutter != nullptr) cutter->prepare(worker.part, begin == 0 ? start : 0);
      if (worker.part.size() >= WordCutter::kTooLong)
        throw std::invalid_argument("a text is 2 GiB or longer");
    }
    use(begin, end, id);
  };
  added_.split_normalized(section.data(), section.size(), use_part, is_text);
}

template <class Id>
OffsetTokens<Id> Encoder<Id>::encode_offsets(const uint8_t* text, size_t size) {
  const Lease lease(*this);
  Worker& worker = *lease;
  worker.track(true);
  const size_t likely = likely_ids(1, size);
  OffsetTokens<Id> tokens{GrowingBuffer<Id>(likely), GrowingBuffer<uint32_t>(2 * likely)};
  OffsetTracker tracker({*parts_.tokens, parts_.byte_level, parts_.model->known_by_its_text()}, text,
                        {parts_.trims_offsets, parts_.keeps_first_space}, tokens.offsets);
  const auto add_nowhere = [&](const std::vector<uint32_t>& ids) {
    for (const uint32_t id : ids) {
      tokens.ids.push_back(static_cast<Id>(id));
      tracker.add_nowhere();
    }
  };
  GrowingBuffer<TokenRange> ranges;
  add_nowhere(parts_.prefix);
  added_.split_written(text, size, [&](size_t begin, size_t end, uint32_t id) {
    worker.section.assign(text + begin, end - begin);
    if (id != Model::kNoToken) {
      tracker.enter(begin, worker.section);
      tokens.ids.push_back(static_cast<Id>(id));
      return tracker.add_added(0, end - begin);
    }
    const auto add_part = [&](size_t first, size_t last, uint32_t found) {
      tracker.enter(begin, worker.section);
      if (found != Model::kNoToken) {
        tokens.ids.push_back(static_cast<Id>(found));
        return tracker.add_added(first, last);
      }
      tracker.enter_part(first, worker.part);
      const size_t before = tokens.ids.size();
      ranges.truncate(0);
      worker.words.encode_ranges(worker.part.data(), worker.part.size(), tokens.ids, ranges);
      for (size_t i = 0; i < ranges.size(); ++i) tracker.add_token(tokens.ids[before + i], ranges[i]);
    };
    split_section(worker, begin == 0, add_part);
  });
  add_nowhere(parts_.suffix);
  return tokens;
}

size_t Spans::find(int64_t begin, int64_t end) const {
  const size_t at = static_cast<size_t>(std::ranges::upper_bound(ends, begin) - ends.begin());
  return at < begins.size() && begins[at] < end ? at : begins.size();
}

bool GuardedSpans::forbids(int64_t begin, int64_t end, uint32_t id) const {
  if (spans.begins.empty() || id >= token_levels.size() || token_levels[id] == 0) return false;
  for (size_t at = spans.find(begin, end); at < spans.begins.size() && spans.begins[at] < end; ++at)
    if (token_levels[id] >= levels[at]) return true;
  return false;
}

// One document's tokens, as they come.
template <class Id>
struct Encoder<Id>::SpannedDocument {
  const uint8_t* text;
  size_t size;
  int64_t begin;  // in all documents
  const Spans& spans;
  const GuardedSpans& guarded;
  GrowingBuffer<Id>& ids;
  GrowingBuffer<uint8_t>& in_span;
  bool imitated = false;

  bool forbids(size_t first, size_t last, uint32_t id) const {
    return guarded.forbids(begin + static_cast<int64_t>(first), begin + static_cast<int64_t>(last), id);
  }
  void add_flag(size_t first, size_t last) {
    // What stands for no byte belongs to the next.
    const int64_t from = begin + static_cast<int64_t>(first);
    const int64_t to = std::max(begin + static_cast<int64_t>(last), from + 1);
    in_span.push_back(spans.find(from, to) < spans.begins.size());
  }
  void add(const Bytes& own, uint32_t id) {
    ids.push_back(static_cast<Id>(id));
    add_flag(own.begin, own.end);
  }
};

template <class Id>
void Encoder<Id>::encode_spanned(Worker& worker, SpannedDocument& document,
                                 GrowingBuffer<TokenRange>& ranges) const {
  const auto is_written_text = [&](size_t begin, size_t end, uint32_t id) {
    return document.forbids(begin, end, id);
  };
  const auto use_written = [&](size_t begin, size_t end, uint32_t id) {
    if (id != Model::kNoToken) return document.add(bare(document.text, begin, end), id);
    const auto origin = [&](size_t first, size_t last) {
      const normalize::Origin found = worker.section.origin(first, last);
      return normalize::Origin{static_cast<uint32_t>(begin + found.begin),
                               static_cast<uint32_t>(begin + found.end)};
    };
    const auto is_text = [&](size_t first, size_t last, uint32_t found) {
      return document.forbids(origin(first, last).begin, origin(first, last).end, found);
    };
    const auto use_part = [&](size_t first, size_t last, uint32_t found) {
      if (found != Model::kNoToken) {
        const Bytes own = bare(worker.section.data(), first, last);
        const normalize::Origin written = origin(own.begin, own.end);
        return document.add({written.begin, written.end}, found);
      }
      const size_t before = document.ids.size();
      ranges.truncate(0);
      worker.words.encode_ranges(worker.part.data(), worker.part.size(), document.ids, ranges);
      for (size_t i = 0; i < ranges.size(); ++i) {
        const normalize::Origin inner = worker.part.origin(ranges[i].begin, ranges[i].end);
        const normalize::Origin range = origin(first + inner.begin, first + inner.end);
        document.add_flag(range.begin, range.end);
        document.imitated |= document.forbids(range.begin, range.end, document.ids[before + i]);
      }
    };
    worker.section.assign(document.text + begin, end - begin);
    split_section(worker, begin == 0, use_part, is_text);
  };
  added_.split_written(document.text, document.size, use_written, is_written_text);
}

template <class Id>
SpannedBatch<Id> Encoder<Id>::encode_spans(const text::TextColumn& documents, const Spans& spans,
                                           const GuardedSpans& guarded) {
  const Lease lease(*this);
  Worker& worker = *lease;
  worker.track(true);
  const size_t rows = documents.rows, likely = likely_ids(rows, documents.total());
  SpannedBatch<Id> batch{GrowingBuffer<Id>(likely), GrowingBuffer<uint8_t>(likely), Buffer<uint32_t>(rows),
                         Buffer<uint8_t>(rows)};
  GrowingBuffer<TokenRange> ranges;
  for (size_t row = 0; row < rows; ++row) {
    const size_t before = batch.ids.size();
    SpannedDocument document{
        documents.begin(row), documents.size(row), documents.offsets[row], spans, guarded, batch.ids,
        batch.in_span};
    encode_spanned(worker, document, ranges);
    if (batch.ids.size() > before) batch.in_span[before] = 0;
    batch.lengths[row] = static_cast<uint32_t>(batch.ids.size() - before);
    batch.imitated[row] = document.imitated;
  }
  return batch;
}

template <class Id>
WordStatistics Encoder<Id>::statistics() {
  const std::lock_guard lock(pool_lock_);
  return statistics_;
}

template <class Id>
void Encoder<Id>::release() {
  const std::lock_guard lock(pool_lock_);
  made_ -= idle_.size();
  idle_.clear();
}

template class Encoder<uint16_t>;
template class Encoder<uint32_t>;

}  // namespace krill::tokenizer
