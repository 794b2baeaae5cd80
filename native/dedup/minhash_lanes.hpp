// The innermost loop of MinHash: a batch of shingles passes a few permutations, whose least numbers stay in
// registers.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace krill {

// Permutations that are worked on together; their numbers stay in registers while shingles pass.
inline constexpr std::size_t kLanes = 16;
// Shingles gathered before the permutations see them: 2 KB, which stay in the nearest cache.
inline constexpr std::size_t kBatch = 256;

struct ShingleBatch {
  std::array<std::uint32_t, kBatch> low;
  std::array<std::uint32_t, kBatch> high;
  std::size_t size = 0;
};

// Vectors of `kVector` bytes: 16 where nothing more is known of the processor, 32 for AVX2.
template <std::size_t kVector>
[[gnu::always_inline]] inline void fold_lanes(const ShingleBatch& batch, const std::uint32_t* low_factors,
                                              const std::uint32_t* high_factors, std::uint32_t* least) {
  typedef std::uint32_t Vector __attribute__((vector_size(kVector), aligned(4), may_alias));
  constexpr std::size_t kVectors = kLanes * sizeof(std::uint32_t) / kVector;
  Vector minimum[kVectors];
  Vector low_factor[kVectors];
  Vector high_factor[kVectors];
  for (std::size_t v = 0; v < kVectors; ++v) {
    minimum[v] = reinterpret_cast<const Vector*>(least)[v];
    low_factor[v] = reinterpret_cast<const Vector*>(low_factors)[v];
    high_factor[v] = reinterpret_cast<const Vector*>(high_factors)[v];
  }
  for (std::size_t i = 0; i < batch.size; ++i) {
    for (std::size_t v = 0; v < kVectors; ++v) {
      const Vector permuted = low_factor[v] * batch.low[i] + high_factor[v] * batch.high[i];
      minimum[v] = permuted < minimum[v] ? permuted : minimum[v];
    }
  }
  for (std::size_t v = 0; v < kVectors; ++v) reinterpret_cast<Vector*>(least)[v] = minimum[v];
}

}  // namespace krill
