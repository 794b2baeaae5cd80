#include "fasttext/model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace krill::fasttext {

namespace {

constexpr int32_t kMagic = 793712314;
constexpr int32_t kOldVersion = 11;
constexpr int32_t kVersion = 12;
constexpr int32_t kSupervised = 3;
// Longer n-grams are nobody's: a text of one word would take time with its square.
constexpr int32_t kLongestNgram = 64;
constexpr double kMostCount = 1e15;
// Rows are found, and then added, so many at once.
constexpr size_t kWaiting = 1024;

// fastText keeps logarithms, which never are of 0.
float safe_log(float value) { return static_cast<float>(std::log(value + 1e-5)); }

class RowAdder {
 public:
  RowAdder(const Matrix& matrix, float* vector) : matrix_(matrix), vector_(vector) {}

  void operator()(uint32_t row) {
    waiting_[count_++] = row;
    if (count_ == kWaiting) add();
  }

  // Adds those that are left; how many there were in all.
  size_t finish() {
    add();
    return rows_;
  }

 private:
  void add() {
    matrix_.add_rows({waiting_.data(), count_}, vector_);
    rows_ += count_;
    count_ = 0;
  }

  const Matrix& matrix_;
  float* vector_;
  std::array<uint32_t, kWaiting> waiting_;
  size_t count_ = 0;
  size_t rows_ = 0;
};

}  // namespace

Model::Model(ModelReader& reader) {
  expect(reader.left() >= 2 * sizeof(int32_t) && reader.number<int32_t>() == kMagic,
         "it is not a fastText model");
  const auto version = reader.number<int32_t>();
  expect(version == kOldVersion || version == kVersion, "it is of another version than 11 and 12");
  const auto columns = reader.number<int32_t>();
  for (int skipped = 0; skipped < 4; ++skipped) (void)reader.number<int32_t>();
  FeatureOptions options;
  options.word_ngrams = reader.number<int32_t>();
  const auto loss = reader.number<int32_t>();
  const auto kind = reader.number<int32_t>();
  const auto buckets = reader.number<int32_t>();
  options.shortest = reader.number<int32_t>();
  options.longest = reader.number<int32_t>();
  (void)reader.number<int32_t>();
  (void)reader.number<double>();
  expect(kind == kSupervised, "it has word vectors and no labels: it was not trained to classify");
  expect(loss >= 1 && loss <= 4, "its loss is not known");
  loss_ = static_cast<Loss>(loss);
  if (version == kOldVersion) options.longest = 0;
  expect(columns > 0 && buckets >= 0 && options.shortest >= 0 && options.longest >= 0 &&
             options.longest <= kLongestNgram && options.word_ngrams <= kLongestNgram,
         "its settings are impossible");
  options.buckets = static_cast<uint32_t>(buckets);
  expect(buckets > 0 || (options.longest == 0 && options.word_ngrams <= 1),
         "it has n-grams and no buckets for them");
  dictionary_ = std::make_unique<const Dictionary>(reader, options);
  const bool quantised = reader.flag();
  expect(quantised || !dictionary_->is_pruned(),
         "it is pruned and not quantised, as models of an old version are");
  input_ = quantised ? read_quantised_matrix(reader) : read_dense_matrix(reader);
  const bool output_quantised = reader.flag();
  output_ = quantised && output_quantised ? read_quantised_matrix(reader) : read_dense_matrix(reader);
  const auto width = static_cast<size_t>(columns);
  expect(input_->columns() == width && output_->columns() == width &&
             input_->rows() >= dictionary_->rows_needed() && output_->rows() == dictionary_->labels(),
         "its matrices do not fit its words and labels");
  expect(reader.left() == 0, "something follows it");
  fingerprint_ = reader.fingerprint();
  for (int64_t at = 0; at <= kSigmoidSize; ++at) {
    const float x = static_cast<float>(at * 2 * kMostSigmoid) / kSigmoidSize - kMostSigmoid;
    sigmoid_[static_cast<size_t>(at)] = static_cast<float>(1.0 / (1.0 + std::exp(-x)));
  }
  if (loss_ == Loss::hierarchical) build_tree();
}

// Huffman's tree: labels are in the order of their counts, so two queues have the rarest at their fronts.
void Model::build_tree() {
  std::vector<int64_t> counts = dictionary_->label_counts();
  const size_t labels = counts.size();
  double sum = 0;
  for (const int64_t count : counts) {
    expect(count >= 0, "a label was seen less than never");
    sum += static_cast<double>(count);
  }
  expect(sum < kMostCount, "its labels were seen more often than can be");
  expect(labels <= static_cast<size_t>(std::numeric_limits<int32_t>::max() / 2), "it has too many labels");
  counts.resize(2 * labels - 1, static_cast<int64_t>(kMostCount));
  size_t leaves = labels;
  size_t next = labels;
  const auto rarest = [&] {
    const bool leaf = leaves > 0 && counts[leaves - 1] < counts[next];
    return static_cast<int32_t>(leaf ? --leaves : next++);
  };
  for (size_t node = labels; node < counts.size(); ++node) {
    const int32_t left = rarest();
    const int32_t right = rarest();
    counts[node] = counts[static_cast<size_t>(left)] + counts[static_cast<size_t>(right)];
    tree_.push_back({left, right});
  }
}

bool Model::hide(std::string_view text, Scratch& scratch) const {
  scratch.hidden.assign(input_->columns(), 0.0f);
  RowAdder adder(*input_, scratch.hidden.data());
  dictionary_->for_rows(text, scratch.words, [&](uint32_t row) { adder(row); });
  const size_t rows = adder.finish();
  if (rows == 0) return false;
  const auto share = static_cast<float>(1.0 / static_cast<double>(rows));
  for (float& value : scratch.hidden) value *= share;
  return true;
}

void Model::score(std::string_view text, Scratch& scratch, float* scores) const {
  const size_t labels = dictionary_->labels();
  std::fill_n(scores, labels, 0.0f);
  if (!hide(text, scratch)) return;
  switch (loss_) {
    case Loss::hierarchical: return hierarchical(scratch, scores);
    case Loss::softmax: softmax(scratch.hidden.data(), scores); break;
    case Loss::negative_sampling:
    case Loss::one_vs_all: sigmoids(scratch.hidden.data(), scores);
  }
  for (size_t label = 0; label < labels; ++label) scores[label] = std::exp(safe_log(scores[label]));
}

void Model::softmax(const float* hidden, float* scores) const {
  const size_t labels = dictionary_->labels();
  for (size_t label = 0; label < labels; ++label) scores[label] = output_->dot(label, hidden);
  const float most = *std::max_element(scores, scores + labels);
  float sum = 0;
  for (size_t label = 0; label < labels; ++label) {
    scores[label] = static_cast<float>(std::exp(static_cast<double>(scores[label] - most)));
    sum += scores[label];
  }
  for (size_t label = 0; label < labels; ++label) scores[label] /= sum;
}

void Model::sigmoids(const float* hidden, float* scores) const {
  for (size_t label = 0; label < dictionary_->labels(); ++label)
    scores[label] = sigmoid(output_->dot(label, hidden));
}

float Model::sigmoid(float value) const {
  constexpr auto kMost = static_cast<float>(kMostSigmoid);
  if (std::isnan(value) || value < -kMost) return 0.0f;
  if (value > kMost) return 1.0f;
  return sigmoid_[static_cast<size_t>((value + kMost) * kSigmoidSize / kMost / 2)];
}

void Model::hierarchical(Scratch& scratch, float* scores) const {
  const size_t labels = dictionary_->labels();
  const float least = safe_log(0.0f);
  // The logarithm of what each node has; a node stands after all that are below it.
  std::vector<float>& nodes = scratch.nodes;
  nodes.assign(labels + tree_.size(), 0.0f);
  for (size_t node = nodes.size(); node-- > labels;) {
    const Node& below = tree_[node - labels];
    float& left = nodes[static_cast<size_t>(below.left)];
    float& right = nodes[static_cast<size_t>(below.right)];
    if (nodes[node] < least) {  // what is below is no likelier
      left = right = -std::numeric_limits<float>::infinity();
      continue;
    }
    const float product = output_->dot(node - labels, scratch.hidden.data());
    const auto share = static_cast<float>(1. / (1 + std::exp(-product)));
    left = nodes[node] + safe_log(static_cast<float>(1.0 - share));
    right = nodes[node] + safe_log(share);
  }
  for (size_t label = 0; label < labels; ++label)
    scores[label] = nodes[label] < least ? 0.0f : std::exp(nodes[label]);
}

}  // namespace krill::fasttext
