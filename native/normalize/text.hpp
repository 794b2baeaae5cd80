// A text on its way through normalizers, and where its bytes come from.
//
// In: bytes of a section, which the caller keeps. Out: the normalised bytes, and for each, if asked for, the
// bytes of the original that it stands for, as the alignments of Hugging Face's NormalizedString say it. Held
// in memory: two buffers of bytes that take turns, and eight bytes more for each byte of either if origins
// are tracked; all are used again for the next text. Nothing is copied while no step changes anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "growing_buffer.hpp"
#include "normalize/points.hpp"

namespace krill::normalize {

// Bytes [begin, end) of the original text.
struct Origin {
  uint32_t begin;
  uint32_t end;
};

// A character in the work of composing: see forms.cpp.
struct Mark {
  uint32_t point;
  int32_t rank_and_change;
};

class Text {
 public:
  // Whether origins are wanted; said before `assign`.
  void track(bool wanted) { tracked_ = wanted; }
  bool tracked() const { return tracked_; }

  // The text as it is before any step. Less than 4 GiB if origins are tracked.
  void assign(const uint8_t* text, size_t size) { assign(text, size, size); }
  void assign(const uint8_t* text, size_t size, size_t readable);

  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }
  // Bytes from `data()` on that may be read, whatever those after the text are.
  size_t readable() const { return readable_; }
  // Whether a step changed anything, so that the text is no longer where `assign` found it.
  bool changed() const { return changed_; }

  // One for each byte; only while `changed()` and `tracked()`, and empty otherwise: then every byte stands
  // for its own character.
  std::span<const Origin> origins() const {
    return changed_ && tracked_ ? std::span<const Origin>(origins_, size_) : std::span<const Origin>();
  }
  // What bytes [begin, end), which begin and end with characters, stand for in the original.
  Origin origin(size_t begin, size_t end) const {
    if (begin >= end || !changed_ || !tracked_)
      return {static_cast<uint32_t>(begin), static_cast<uint32_t>(end)};
    return {origins_[begin].begin, origins_[end - 1].end};
  }

  // Keeps bytes [begin, end) alone.
  void narrow(size_t begin, size_t end);

  // ---- for steps: the next state is written beside the present one, then takes its place ----

  GrowingBuffer<uint8_t>& next_bytes() { return bytes_[turn_]; }
  GrowingBuffer<Origin>& next_origins() { return origin_buffers_[turn_]; }
  // The origins of the present state, made if there are none yet.
  const Origin* present_origins();
  void flip();

  // The present state as bytes that may be changed, after `flip`.
  uint8_t* mutable_data() { return bytes_[1 - turn_].data(); }

  GrowingBuffer<Mark>& marks() { return marks_; }

 private:
  // Room behind a text that was changed, for reads of whole blocks.
  static constexpr size_t kSlack = 16;

  const uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t readable_ = 0;
  const Origin* origins_ = nullptr;
  bool tracked_ = false;
  bool changed_ = false;
  bool has_origins_ = false;
  size_t turn_ = 0;
  GrowingBuffer<uint8_t> bytes_[2];
  GrowingBuffer<Origin> origin_buffers_[2];
  GrowingBuffer<Mark> marks_;
};

// Writes the next state of a text from left to right: stretches are kept, dropped, or replaced by characters.
// Origins follow the library's rule for a list of (character, change): a character with change 0 takes the
// place of the next character of the old text, one with change -n that of the next and of n more, one with
// change 1 is new and belongs to the character before it. The characters kept have change 0.
class Rewriter {
 public:
  explicit Rewriter(Text& text) : text_(text), source_(text.data()), size_(text.size()) {}

  // Everything up to `at` that was neither kept nor dropped yet is kept.
  void keep_to(size_t at) { kept_end_ = at; }

  // Everything up to `at` is dropped. Says nothing about origins.
  void drop_to(size_t at) {
    flush();
    kept_begin_ = kept_end_ = at;
  }

  void put(uint32_t point, int32_t change) {
    flush();
    GrowingBuffer<uint8_t>& bytes = text_.next_bytes();
    uint8_t* room = bytes.room(4);
    uint8_t* end = write_point(room, point);
    bytes.set_end(end);
    if (text_.tracked()) put_origin(static_cast<size_t>(end - room), change);
  }

  // `count` characters of the old text are gone: the change of the last character written sinks by as many.
  // If there is none, they are passed over when `at_start`.
  void remove(size_t count, bool at_start) {
    flush();
    if (text_.tracked()) remove_origins(count, at_start);
  }

  // Bytes [begin, end) of the old text become `content`, which belongs to the last character of what it
  // replaces, or to the one before if that is empty. Not to be mixed with `put` and `remove`.
  void replace(size_t begin, size_t end, const uint8_t* content, size_t content_size);

  // Keeps the rest. Nothing happens if all was kept.
  void finish();

 private:
  void flush() {
    if (!started_) start();
    if (kept_begin_ != kept_end_) flush_kept();
  }
  void flush_kept();
  void start();
  void put_origin(size_t bytes, int32_t change);
  void remove_origins(size_t count, bool at_start);
  void advance(size_t characters);

  Text& text_;
  const uint8_t* source_;
  size_t size_;
  size_t kept_begin_ = 0;
  size_t kept_end_ = 0;
  bool started_ = false;

  // For origins: how far the old text is used up, and what was written last.
  const Origin* old_ = nullptr;
  size_t used_ = 0;
  size_t last_bytes_ = 0;
  int32_t last_change_ = 0;
  bool written_ = false;
};

}  // namespace krill::normalize
