// A supervised fastText model: how likely each label is for a text, to the last bit as fastText says it.
//
// Held in memory: the file's words and weights, 28 bytes more for each word, and 22 for each pruned bucket.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "fasttext/dictionary.hpp"
#include "fasttext/matrix.hpp"
#include "fasttext/model_reader.hpp"

namespace krill::fasttext {

class Model {
 public:
  // Throws std::invalid_argument, with what is wrong, if the file is not such a model.
  explicit Model(ModelReader& reader);

  struct Scratch {
    Dictionary::Scratch words;
    std::vector<float> hidden;
    std::vector<float> nodes;
  };

  const Dictionary& dictionary() const { return *dictionary_; }
  uint64_t fingerprint() const { return fingerprint_; }
  // A number for each label; 0 for all if the text has nothing that the model knows.
  void score(std::string_view text, Scratch& scratch, float* scores) const;

 private:
  enum class Loss : int32_t { hierarchical = 1, negative_sampling = 2, softmax = 3, one_vs_all = 4 };
  struct Node {
    int32_t left;
    int32_t right;
  };
  static constexpr int64_t kSigmoidSize = 512;
  static constexpr int64_t kMostSigmoid = 8;

  void build_tree();
  bool hide(std::string_view text, Scratch& scratch) const;
  void softmax(const float* hidden, float* scores) const;
  void sigmoids(const float* hidden, float* scores) const;
  void hierarchical(Scratch& scratch, float* scores) const;
  float sigmoid(float value) const;

  Loss loss_;
  std::unique_ptr<const Dictionary> dictionary_;
  std::unique_ptr<const Matrix> input_;
  std::unique_ptr<const Matrix> output_;
  std::array<float, kSigmoidSize + 1> sigmoid_;
  std::vector<Node> tree_;  // above the labels, from the bottom
  uint64_t fingerprint_;
};

}  // namespace krill::fasttext
