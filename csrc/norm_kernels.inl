// RMSNorm of rows: x / sqrt(mean(x^2) + eps) * weight, in fp32.

#include "optest/vec.inl"

// sum(x^2) of n elements, in independent sums so that no addition waits for the one before it.
template <class T>
OPTEST_INLINE float sum_of_squares(const T* x, int64_t n) {
  F sums[4] = {};
  const auto take = [&](Pair v, int at) OPTEST_LAMBDA {
    sums[at] = fma(v.a, v.a, sums[at]);
    sums[at + 1] = fma(v.b, v.b, sums[at + 1]);
  };
  int64_t i = 0;
  for (; i + 2 * kPair <= n; i += 2 * kPair) {
    take(load_pair(x + i), 0);
    take(load_pair(x + i + kPair), 2);
  }
  for (; i + kPair <= n; i += kPair) take(load_pair(x + i), 0);
  if (i < n) take(load_pair_part(x + i, n - i), 2);
  return sum_of((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

template <class T>
OPTEST_INLINE void normalise(const T* x, T* out, const float* weight, int64_t n, float eps,
                             const T* ahead, bool past_caches) {
  const float mean = sum_of_squares(x, n) / static_cast<float>(n);
  const F factor = splat(1.0f / std::sqrt(mean + eps));
  const auto scaled = [=](F v, F w) OPTEST_LAMBDA { return v * factor * w; };
  map<T>(out, n, past_caches, scaled, Ahead<T>{x, ahead}, Columns{weight});
}

// Elements that the weight of a row of n must have room for.
inline int64_t columns_room(int64_t n) { return (n + kPair - 1) / kPair * kPair; }

// A weight of dtype W as the Columns of rows of T, every NaN a plain one (see round_to_bf16).
template <class T, class W>
void order_weight(const void* weight, float* columns, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    const float value = load_part(static_cast<const W*>(weight) + i, 1)[0];
    columns[order_as<T>(i)] = value == value ? value : NAN;
  }
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
  map<T>(sum, n, false, add, streamed<T>(in), streamed<T>(sum));
  normalise<T>(sum, in, weight, n, eps, static_cast<const T*>(ahead), false);
}
