// The innermost loop of MinHash: a batch of shingles passes a few permutations, whose least numbers stay in
// registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace krill::dedup {

// Permutations that are worked on together; their numbers stay in registers while shingles pass.
inline constexpr size_t kLanes = 16;
// Shingles gathered before the permutations see them: 2 KB, which stay in the nearest cache.
inline constexpr size_t kBatch = 256;

struct ShingleBatch {
  std::array<uint32_t, kBatch> low;
  std::array<uint32_t, kBatch> high;
  size_t size = 0;
};

// Vectors of `kVector` bytes: 16 where nothing more is known of the processor, 32 for AVX2.
template <size_t kVector>
[[gnu::always_inline]] inline void fold_lanes(const ShingleBatch& batch, const uint32_t* low_factors,
                                              const uint32_t* high_factors, uint32_t* least) {
  typedef uint32_t Vector __attribute__((vector_size(kVector), aligned(4), may_alias));
  constexpr size_t kVectors = kLanes * sizeof(uint32_t) / kVector;
  Vector minimum[kVectors];
  Vector low_factor[kVectors];
  Vector high_factor[kVectors];
  for (size_t v = 0; v < kVectors; ++v) {
    minimum[v] = reinterpret_cast<const Vector*>(least)[v];
    low_factor[v] = reinterpret_cast<const Vector*>(low_factors)[v];
    high_factor[v] = reinterpret_cast<const Vector*>(high_factors)[v];
  }
  for (size_t i = 0; i < batch.size; ++i) {
    for (size_t v = 0; v < kVectors; ++v) {
      const Vector permuted = low_factor[v] * batch.low[i] + high_factor[v] * batch.high[i];
      minimum[v] = permuted < minimum[v] ? permuted : minimum[v];
    }
  }
  for (size_t v = 0; v < kVectors; ++v) reinterpret_cast<Vector*>(least)[v] = minimum[v];
}

}  // namespace krill::dedup
