// A fuzzer that drives itself: seeds, a mutator and a clock, for compilers that bring no fuzzing engine.
//
//   krill_fuzz [seconds] [seed]     runs; the same seed gives the same inputs
//   krill_fuzz --replay FILE        runs one input again
//
// An input that breaks something is left in krill_fuzz.crash. Build with KRILL_SANITIZE=ON, so that reading
// or writing out of bounds breaks something.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fuzz/bpe_fuzz.hpp"
#include "fuzz/csv_fuzz.hpp"
#include "fuzz/datatrove_fuzz.hpp"
#include "fuzz/decoders_fuzz.hpp"
#include "fuzz/encoder_fuzz.hpp"
#include "fuzz/fasttext_fuzz.hpp"
#include "fuzz/kernels_fuzz.hpp"
#include "fuzz/language_fuzz.hpp"
#include "fuzz/literals_fuzz.hpp"
#include "fuzz/loading_fuzz.hpp"
#include "fuzz/minhash_fuzz.hpp"
#include "fuzz/models_fuzz.hpp"
#include "fuzz/normalize_fuzz.hpp"
#include "fuzz/pack_fuzz.hpp"
#include "fuzz/parquet_fuzz.hpp"
#include "fuzz/points_fuzz.hpp"
#include "fuzz/qa_fuzz.hpp"
#include "fuzz/quality_fuzz.hpp"
#include "fuzz/readers_fuzz.hpp"
#include "fuzz/regex_fuzz.hpp"
#include "fuzz/scanner_fuzz.hpp"
#include "fuzz/tokenizer_file_fuzz.hpp"
#include "fuzz/training_fuzz.hpp"
#include "fuzz/url_fuzz.hpp"
#include "fuzz/web_fuzz.hpp"

// Sanitizers are to end in SIGABRT, where the input is saved.
extern "C" const char* __asan_default_options() { return "abort_on_error=1"; }
extern "C" const char* __ubsan_default_options() { return "abort_on_error=1:print_stacktrace=1"; }

namespace krill::fuzz {
namespace {

using namespace std::string_view_literals;

using Input = std::vector<uint8_t>;

constexpr size_t kMaxInput = 512;
constexpr size_t kPool = 256;
constexpr const char* kCrashFile = "krill_fuzz.crash";

// What inputs begin as, and what is put into them: records, and bytes at every border of UTF-8 and JSON.
constexpr std::string_view kSeeds[] = {
    "\1\x20\1\1\0\0\1\x8{\"id\": 1, \"text\": \"a line of text\"}\n"
    "{\"text\": \"h\\u00e9\\ud83d\\ude00\"}\n"sv,
    "\1\x10\0\0\1\0\1\x5[{\"text\": \"one\", \"n\": [1, {\"a\": null}]},"
    " {\"text\": \"two\\n\\n\", \"id\": -1.5e3}]"sv,
    "\x9\1\0\2\n\n\2\x7\x3 first document\n\nsecond\xe2\x80\x83 document \n\n"
    "the third, longer than all the others"sv,
    "\1\2\0\3\x20\x20  \xe3\x80\x80 d\xc3\xa9j\xc3\xa0 vu \xf0\x9f\x98\x80"
    " \xe5\xa4\x9a\xe5\xad\x97\xe8\x8a\x82 \xed\xa0\x80 \xc0\x80 "sv,
    // a Parquet footer: its schema, one row group of one column
    "\x15\4\x19\x2c\x48\6schema\x15\2\0\x15\xc\x38\4text\0\x16\6\x19\x1c\x19\x1c\x26\x8\x1c\x15\xc\x46\6"
    "\x16@\x16@\x26\x8\0\0\x16@\x16\6\0\0"sv,
    // parts of a tokenizer.json
    "\"a\": 5, \"bc\": 6, \"\\u0120\\ud83d\\ude00\": 70"sv,
    "[\"a\", -1.5], [\"bc\", -2e-3], [\"\", 0]"sv,
    ", [\"a\", \"b\"], [\"ab\", \"a\"]"sv,
    ", {\"id\": 9, \"content\": \"<s>\", \"single_word\": false, \"lstrip\": true, \"rstrip\": false, "
    "\"normalized\": false, \"special\": true, \"other\": [{}]}"sv,
    // a page
    "\x5<p a=b>text<!-- c --><svg/><table><td><script>a</script></table></p><b id='x'>"sv,
    ""sv,
};
// clang-format off
constexpr std::string_view kTokens[] = {
    // JSON
    "\n"sv, "\r\n"sv, "\""sv, "\\"sv, "\\u"sv, "\\ud83d"sv, "\\ude00"sv, "\\u0000"sv, "{"sv, "}"sv, "["sv,
    "]"sv, ","sv, ":"sv, "\"text\":"sv, "\"id\":"sv, "true"sv, "null"sv, "-0.5e+1"sv, "\xef\xbb\xbf"sv,
    // whitespace
    " "sv, "\t"sv, "\x1c"sv, "\xc2\x85"sv, "\xc2\xa0"sv, "\xe1\x9a\x80"sv, "\xe2\x80\xa8"sv, "\xe3\x80\x80"sv,
    // words: contractions, upper and lower case, letters without case, marks, numbers
    "'s"sv, "'LL"sv, "'\xc5\xbf"sv, "'"sv, "Ab"sv, "aB"sv, "1234"sv, "\xc2\xb2"sv, "\xd0\x96\xd0\xb6"sv, "!/"sv,
    "\xe6\xbc\xa2"sv, "\xcc\x81"sv, "  \n \n"sv, "<|endoftext|>"sv,
    // the least and the greatest of each length, well-formed and not
    "\0"sv, "\x7f"sv, "\x80"sv, "\xbf"sv, "\xc0\x80"sv, "\xc1\xbf"sv, "\xc2\x80"sv, "\xdf\xbf"sv,
    "\xe0\x9f\xbf"sv, "\xe0\xa0\x80"sv, "\xed\x9f\xbf"sv, "\xed\xa0\x80"sv, "\xee\x80\x80"sv, "\xef\xbf\xbf"sv,
    "\xf0\x8f\xbf\xbf"sv, "\xf0\x90\x80\x80"sv, "\xf4\x8f\xbf\xbf"sv, "\xf4\x90\x80\x80"sv, "\xf5"sv, "\xff"sv,
    // cut off, and long runs
    "\xc3"sv, "\xe2\x82"sv, "\xf0\x9f\x98"sv, "letters that fill a block of sixty-four bytes, and one more ..."sv,
    "\xe8\xaa\x9e\xe8\xaa\x9e\xe8\xaa\x9e\xe8\xaa\x9e\xe8\xaa\x9e\xe8\xaa\x9e\xe8\xaa\x9e\xe8\xaa\x9e"sv,
};
// clang-format on

const Input* current = nullptr;

// Only what a signal handler may call.
void save_input(int) {
  const int file = open(kCrashFile, O_WRONLY | O_CREAT | O_TRUNC, 0644);
  if (file >= 0 && current != nullptr && write(file, current->data(), current->size()) >= 0) {
    constexpr std::string_view kSaid = "the input is in krill_fuzz.crash\n";
    (void)!write(STDERR_FILENO, kSaid.data(), kSaid.size());
  }
  std::signal(SIGABRT, SIG_DFL);
  std::abort();
}

void run(const Input& input) {
  const Input exact(input);  // capacity = size, so that a sanitizer sees its end
  current = &exact;
  fuzz_readers(exact.data(), exact.size());
  fuzz_csv(exact.data(), exact.size());
  fuzz_clean(exact.data(), exact.size());
  fuzz_dedup(exact.data(), exact.size());
  fuzz_tokens(exact.data(), exact.size());
  fuzz_scanner(exact.data(), exact.size());
  fuzz_encoder(exact.data(), exact.size());
  fuzz_bpe(exact.data(), exact.size());
  fuzz_training(exact.data(), exact.size());
  fuzz_minhash(exact.data(), exact.size());
  fuzz_pack(exact.data(), exact.size());
  fuzz_quality(exact.data(), exact.size());
  fuzz_language(exact.data(), exact.size());
  fuzz_loading(exact.data(), exact.size());
  fuzz_qa(exact.data(), exact.size());
  fuzz_datatrove(exact.data(), exact.size());
  fuzz_parquet(exact.data(), exact.size());
  fuzz_literals(exact.data(), exact.size());
  fuzz_regex(exact.data(), exact.size());
  fuzz_models(exact.data(), exact.size());
  fuzz_normalize(exact.data(), exact.size());
  fuzz_decoders(exact.data(), exact.size());
  fuzz_tokenizer_file(exact.data(), exact.size());
  fuzz_url(exact.data(), exact.size());
  fuzz_points(exact.data(), exact.size());
  fuzz_fasttext(exact.data(), exact.size());
  fuzz_web(exact.data(), exact.size());
  current = nullptr;
}

// Inputs that descend from the seeds by small random changes. Without knowledge of what the code did with
// them, the pool drifts: each new input takes the place of an old one.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {
    for (size_t i = 0; i < kPool; ++i) pool_.push_back(fresh());
  }

  const Input& next() {
    Input input = below(64) == 0 ? fresh() : pool_[below(kPool)];
    for (size_t changes = 1 + below(6); changes > 0; --changes) change(input);
    if (input.size() > kMaxInput) input.resize(kMaxInput);
    return pool_[below(kPool)] = std::move(input);
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  Input fresh() {
    const std::string_view seed = kSeeds[below(std::size(kSeeds))];
    return {seed.begin(), seed.end()};
  }

  void insert(Input& input, const Input& piece) {
    const auto at = static_cast<ptrdiff_t>(below(input.size() + 1));
    input.insert(input.begin() + at, piece.begin(), piece.end());
  }

  Input slice(const Input& input, size_t longest) {
    const size_t begin = below(input.size() + 1);
    const size_t length = below(std::min(longest, input.size() - begin) + 1);
    const auto first = input.begin() + static_cast<ptrdiff_t>(begin);
    return {first, first + static_cast<ptrdiff_t>(length)};
  }

  void change(Input& input) {
    switch (below(7)) {
      case 0: {
        const std::string_view token = kTokens[below(std::size(kTokens))];
        return insert(input, {token.begin(), token.end()});
      }
      case 1:
        if (!input.empty()) input[below(input.size())] ^= static_cast<uint8_t>(1u << below(8));
        return;
      case 2:
        if (!input.empty()) input[below(input.size())] = static_cast<uint8_t>(random_());
        return;
      case 3: {
        Input noise(1 + below(8));
        for (uint8_t& byte : noise) byte = static_cast<uint8_t>(random_());
        return insert(input, noise);
      }
      case 4: {  // take something out
        const size_t begin = below(input.size() + 1);
        const size_t end = begin + below(std::min<size_t>(32, input.size() - begin) + 1);
        input.erase(input.begin() + static_cast<ptrdiff_t>(begin),
                    input.begin() + static_cast<ptrdiff_t>(end));
        return;
      }
      case 5: return insert(input, slice(pool_.empty() ? input : pool_[below(pool_.size())], 128));
      default: return insert(input, slice(Input(input), 64));
    }
  }

  std::mt19937_64 random_;
  std::vector<Input> pool_;
};

int replay(const char* path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::fprintf(stderr, "can't read `%s`\n", path);
    return 2;
  }
  run(Input(std::istreambuf_iterator<char>(file), {}));
  std::printf("nothing broke\n");
  return 0;
}

}  // namespace
}  // namespace krill::fuzz

int main(int count, char** arguments) {
  using namespace krill::fuzz;
  if (count == 3 && arguments[1] == "--replay"sv) return replay(arguments[2]);
  const double seconds = count > 1 ? std::atof(arguments[1]) : 10;
  const uint64_t seed = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : std::random_device{}();
  std::signal(SIGABRT, save_input);

  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const auto elapsed = [&] { return std::chrono::duration<double>(Clock::now() - begin).count(); };
  Mutator mutator(seed);
  uint64_t iterations = 0;
  do {
    run(mutator.next());
    ++iterations;
  } while (iterations % 64 != 0 || elapsed() < seconds);
  std::printf("seed %llu: %llu iterations in %.1f s, %.0f/s, nothing broke\n",
              static_cast<unsigned long long>(seed), static_cast<unsigned long long>(iterations), elapsed(),
              static_cast<double>(iterations) / elapsed());
  return 0;
}
