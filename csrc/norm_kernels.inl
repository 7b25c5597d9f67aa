// RMSNorm of rows: x / sqrt(mean(x^2) + eps) * weight, in fp32.

#include "optest/vec.inl"

// sum(x^2) of n elements, in independent sums so that no addition waits for the one before it.
template <class T>
OPTEST_INLINE float sum_of_squares(const T* x, int64_t n) {
  F sums[4] = {};
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int j = 0; j < 4; ++j) {
      const F v = load(x + i + j * kLanes);
      sums[j] = fma(v, v, sums[j]);
    }
  }
  for (; i < n; i += kLanes) {
    const F v = i + kLanes <= n ? load(x + i) : load_part(x + i, n - i);
    sums[0] = fma(v, v, sums[0]);
  }
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class T>
OPTEST_INLINE void normalise(const T* x, T* out, const float* weight, int64_t n, float eps,
                             const T* ahead, bool past_caches) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const F factor = splat(1.0f / std::sqrt(mean + eps));
  const auto scaled = [=](F v, F w) OPTEST_LAMBDA { return v * factor * w; };
  map(out, n, past_caches, scaled, Ahead<T>{x, ahead}, weight);
}

template <class T>
void widen_row(const void* from, float* to, int64_t n) {
  map(to, n, false, [](F v) OPTEST_LAMBDA { return v; }, static_cast<const T*>(from));
}

// `ahead` is the row after x, or x.
template <class T>
void rmsnorm_row(const void* x, void* out, const float* weight, int64_t n, float eps,
                 const void* ahead, bool past_caches) {
  normalise(static_cast<const T*>(x), static_cast<T*>(out), weight, n, eps,
            static_cast<const T*>(ahead), past_caches);
}

// residual += x, rounded; x = rmsnorm(residual).
template <class T>
void fused_add_rmsnorm_row(void* x, void* residual, const float* weight, int64_t n, float eps,
                           const void* ahead) {
  T* const in = static_cast<T*>(x);
  T* const sum = static_cast<T*>(residual);
  const auto add = [](F a, F b) OPTEST_LAMBDA { return a + b; };
  map(sum, n, false, add, static_cast<const T*>(in), static_cast<const T*>(sum));
  normalise<T>(sum, in, weight, n, eps, static_cast<const T*>(ahead), false);
}
