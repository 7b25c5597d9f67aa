// RMSNorm of rows: x / sqrt(mean(x^2) + eps) * weight, in fp32.

#include "optest/vec.inl"

#include "optest/columns.inl"

template <class In, class T>
OPTEST_INLINE void normalise(In in, T* out, const float* weight, int64_t n, float eps, float squares,
                             bool past_caches) {
  const F factor = splat(1.0f / std::sqrt(squares / static_cast<float>(n) + eps));
  const auto scaled = [=](F v, F w) OPTEST_LAMBDA { return v * factor * w; };
  map<T>(out, n, past_caches, scaled, in, Columns{weight});
}

template <class T>
float sum_of_squares(const void* x, int64_t n) {
  return reduced<SumOfSquares<T>>(static_cast<const T*>(x), n);
}

// One row, of which `squares` is the sum of squares; returns that of the next row.
template <class T>
float rmsnorm_row(const void* x, const void* next, void* out, const float* weight, int64_t n,
                  float eps, float squares, bool past_caches) {
  SumOfSquares<T> sum;
  const WithNext<T, SumOfSquares<T>> in{static_cast<const T*>(x), static_cast<const T*>(next), &sum};
  normalise(in, static_cast<T*>(out), weight, n, eps, squares, past_caches);
  return sum.result();
}

// residual += x, rounded; x = rmsnorm(residual).
template <class T>
void fused_add_rmsnorm_row(void* x, void* residual, const float* weight, int64_t n, float eps) {
  T* const in = static_cast<T*>(x);
  T* const sum = static_cast<T*>(residual);
  const auto add = [](F a, F b) OPTEST_LAMBDA { return a + b; };
  map<T>(sum, n, false, add, Streamed<T, 2>{in}, Streamed<T, 2>{sum});
  normalise(static_cast<const T*>(sum), in, weight, n, eps, reduced<SumOfSquares<T>>(static_cast<const T*>(sum), n), false);
}
