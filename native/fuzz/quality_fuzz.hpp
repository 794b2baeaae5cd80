// Drives the word splitter and the quality filters with text, thresholds and cuts taken from the input, and
// aborts where they break their word: words are all of the text but its spaces, sentences all of it, a
// document is judged the same alone and among others, with and without statistics, and what was repeated once
// is not repeated twice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/kernels_fuzz.hpp"
#include "quality/filters.hpp"
#include "quality/quality.hpp"
#include "quality/sentences.hpp"
#include "quality/words.hpp"

namespace krill::fuzz {

inline std::unique_ptr<quality::Filter> some_filter(Settings& settings) {
  const auto ratio = [&] { return settings.next() % 9 / 8.0; };
  const auto number = [&] { return uint64_t{settings.next()} % 12; };
  const auto grams = [&] {
    quality::GopherRepetitionLimits::NGrams found;
    for (size_t count = settings.next() % 4; count > 0; --count)
      found.emplace_back(1 + settings.next() % 10, ratio());
    return found;
  };
  switch (settings.next() % 6) {
    case 0:
      return quality::make_gopher_quality({number(),
                                           number() * 9,
                                           ratio(),
                                           1 + ratio() * 9,
                                           ratio(),
                                           ratio(),
                                           ratio(),
                                           ratio(),
                                           number() % 3,
                                           {"the", "a", "\xc3\xa9"}});
    case 1: return quality::make_gopher_repetition({ratio(), ratio(), ratio(), ratio(), grams(), grams()});
    case 2:
      return quality::make_c4({settings.flag(), settings.flag(), settings.flag(), number() % 3, number() % 4,
                               number() * 4, settings.flag(), settings.flag(), settings.flag(),
                               settings.flag()});
    case 3: {
      std::optional<std::vector<std::string>> stops;
      if (settings.flag()) stops = {".", "\xc3\xa9", "ab"};
      return quality::make_fineweb(
          {ratio(), settings.flag(), stops, ratio(), number(), ratio(), ratio() * 2});
    }
    case 4: return quality::make_lengths({number() % 3, number() * 20, number() * 40});
    default: {
      const auto kind = settings.flag() ? quality::Repeated::lines : quality::Repeated::paragraphs;
      return quality::make_repeated(kind, number() % 4);
    }
  }
}

inline void fuzz_splitter(const uint8_t* text, size_t size) {
  size_t end = 0;
  const auto only_spaces = [&](size_t from, size_t to) {
    while (from < to) {
      const quality::Character here = quality::character_at(text + from, size - from);
      expect((quality::traits_of(here.point) & quality::kSpace) != 0, "words: something is left out");
      from += here.length;
    }
  };
  quality::split_words(text, size, [&](quality::Span word) {
    expect(word.size > 0 && word.begin >= end && size_t{word.begin} + word.size <= size, "words: order");
    only_spaces(end, word.begin);
    end = size_t{word.begin} + word.size;
  });
  only_spaces(end, size);
  end = 0;
  quality::split_sentences(text, size, [&](quality::Span sentence) {
    expect(sentence.begin == end, "sentences: a gap");
    end += sentence.size;
  });
  expect(end == size, "sentences: not all of the text");
}

// The text that is left of a document.
inline std::string text_left(const quality::Verdicts& verdicts, const Column& column, size_t row) {
  if (!verdicts.text) return column.row(row);
  const auto* data = reinterpret_cast<const char*>(verdicts.text->data.data());
  const int64_t begin = verdicts.text->offsets[row];
  return {data + begin, data + verdicts.text->offsets[row + 1]};
}

inline void fuzz_filters(Settings settings) {
  std::vector<std::unique_ptr<quality::Filter>> filters;
  for (size_t count = 1 + settings.next() % 3; count > 0; --count) filters.push_back(some_filter(settings));
  const quality::Quality quality(std::move(filters));
  const Column column = cut_column(settings);
  const quality::Verdicts all = quality.judge(column.view(), true);
  for (size_t row = 0; row < column.rows(); ++row) {
    expect(all.codes[row] <= quality.reasons().size(), "quality: an unknown reason");
    const std::string text = column.row(row);
    const Column alone{{0, static_cast<int64_t>(text.size())}, {text.begin(), text.end()}};
    const quality::Verdicts one = quality.judge(alone.view(), false);
    expect(one.codes[0] == all.codes[row], "quality: another decision");
    expect(text_left(one, alone, 0) == text_left(all, column, row), "quality: another text");
  }
}

inline void fuzz_repeated_pieces(Settings settings) {
  const auto kind = settings.flag() ? quality::Repeated::lines : quality::Repeated::paragraphs;
  std::vector<std::unique_ptr<quality::Filter>> filters;
  filters.push_back(quality::make_repeated(kind, settings.next() % 4));
  const quality::Quality quality(std::move(filters));
  const Column column = cut_column(settings);
  const quality::Verdicts once = quality.judge(column.view(), false);
  for (size_t row = 0; row < column.rows(); ++row) {
    const std::string text = text_left(once, column, row);
    const Column left{{0, static_cast<int64_t>(text.size())}, {text.begin(), text.end()}};
    expect(!quality.judge(left.view(), false).text, "repeated: something is left");
  }
}

inline void fuzz_quality(const uint8_t* data, size_t size) {
  fuzz_splitter(data, size);
  fuzz_filters({data, size});
  fuzz_repeated_pieces({data, size});
}

}  // namespace krill::fuzz
