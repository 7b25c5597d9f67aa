// Layer normalisation of rows: (x - mean) / sqrt(variance + eps) * weight + bias, in fp32.

#include "optest/vec.inl"

#include "optest/columns.inl"

template <class T>
struct Sum {
  F a{};
  F b{};

  OPTEST_INLINE void take(const T* at) {
    const Pair v = load_pair(at);
    a += v.a;
    b += v.b;
  }
  OPTEST_INLINE float result() const { return sum_of(a + b); }
};

template <class T>
float row_sum(const void* x, int64_t n) {
  return reduced<Sum<T>>(static_cast<const T*>(x), n);
}

struct Moments {
  float mean;
  float variance;
};

// Of a row around `near`, its mean but for the rounding of a long sum. What is left of the mean is found
// with the squares and taken out of both: rows far from zero lose nothing that fp32 can hold.
template <class T>
OPTEST_INLINE Moments moments_near(const T* x, int64_t n, float near) {
  const F origin = splat(near);
  F first{};
  F second{};
  F squares{};
  F more{};
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    const Pair v = load_pair(x + i);
    const F a = v.a - origin;
    const F b = v.b - origin;
    first += a;
    second += b;
    squares = fma(a, a, squares);
    more = fma(b, b, more);
  }
  float left = sum_of(first + second);
  float square = sum_of(squares + more);
  for (; i < n; ++i) {
    const float apart = load_part(x + i, 1)[0] - near;
    left += apart;
    square += apart * apart;
  }
  const float shift = left / static_cast<float>(n);
  return {near + shift, square / static_cast<float>(n) - shift * shift};
}

// One row, of which `sum` is the sum; returns that of the next row.
template <class T>
float layernorm_row(const void* x, const void* next, void* out, const float* weight,
                    const float* bias, int64_t n, float eps, float sum, bool past_caches) {
  const T* const from = static_cast<const T*>(x);
  const Moments of_row = moments_near(from, n, sum / static_cast<float>(n));
  const F mean = splat(of_row.mean);
  const F factor = splat(1.0f / std::sqrt(of_row.variance + eps));
  const auto scaled = [=](F v, F w, F b) OPTEST_LAMBDA { return fma((v - mean) * factor, w, b); };
  Sum<T> next_sum;
  const WithNext<T, Sum<T>> in{from, static_cast<const T*>(next), &next_sum};
  map<T>(static_cast<T*>(out), n, past_caches, scaled, in, Columns{weight}, Columns{bias});
  return next_sum.result();
}
