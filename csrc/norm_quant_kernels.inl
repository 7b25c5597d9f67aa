// Rows that are quantised as they are made: the RMSNorm of a sum, or the product with a number a column.

#include "quant_kernels.inl"

#include "optest/columns.inl"

OPTEST_INLINE float number_of(uint32_t bits) {
  float number;
  std::memcpy(&number, &bits, sizeof number);
  return number;
}

OPTEST_INLINE uint32_t bits_of(float number) {
  uint32_t bits;
  std::memcpy(&bits, &number, sizeof bits);
  return bits;
}

// Bits of the largest |x * column|, as LargestBits; takes the columns from the first on, in turn.
template <class T>
struct LargestProduct {
  const float* columns;
  U a{};
  U b{};

  OPTEST_INLINE void take(const T* at) { take(load_pair(at)); }
  OPTEST_INLINE void take(Pair v) {
    const Pair w = load_pair(columns);
    columns += kPair;
    a = larger(a, (U)(v.a * w.a) & kAbs);
    b = larger(b, (U)(v.b * w.b) & kAbs);
  }
  OPTEST_INLINE uint32_t result() const { return largest_of(larger(a, b)); }
};

// ---- a norm ---------------------------------------------------------------------------------------

// Of the sum of two rows times the weight.
struct RowFacts {
  float squares;     // of the sum alone
  uint32_t largest;  // bits, as LargestProduct has them
};

// The nearest number that T has.
template <class T>
OPTEST_INLINE F rounded_to(F value) {
  if constexpr (std::is_same_v<T, Bf16>) {
    return (F)(round_to_bf16(value) & 0xffff0000u);
  } else if constexpr (std::is_same_v<T, Fp16>) {
    const U16 bits = round_to_fp16(value);
    return load(reinterpret_cast<const Fp16*>(&bits));
  } else {
    return value;
  }
}

template <class T>
struct Adding {
  F a{};
  F b{};
  LargestProduct<T> largest;

  // sum = rounded(x + sum).
  OPTEST_INLINE void add(const T* x, T* sum) {
    const Pair v = load_pair(x);
    const Pair w = load_pair(sum);
    const Pair total{rounded_to<T>(v.a + w.a), rounded_to<T>(v.b + w.b)};
    store_pair<T, false>(sum, total.a, total.b);
    a = fma(total.a, total.a, a);
    b = fma(total.b, total.b, b);
    largest.take(total);
  }
};

// residual += x, rounded.
template <class T>
OPTEST_INLINE RowFacts add_row(const T* in, T* sum, const float* weight, int64_t n) {
  Adding<T> adding{{}, {}, {weight}};
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    ask_for_lines<2>(in + i);
    ask_for_lines<2>(sum + i);
    adding.add(in + i, sum + i);
  }
  if (i < n) {
    const size_t bytes = static_cast<size_t>(n - i) * sizeof(T);
    T padded_x[kPair] = {};
    T padded_sum[kPair] = {};
    std::memcpy(padded_x, in + i, bytes);
    std::memcpy(padded_sum, sum + i, bytes);
    adding.add(padded_x, padded_sum);
    std::memcpy(sum + i, padded_sum, bytes);
  }
  return {sum_of(adding.a + adding.b), adding.largest.result()};
}

// The codes of a row's RMSNorm; returns their scale. The largest element is known beforehand: a product
// with one positive number keeps the order. Where nothing under- or overflows, the norm's factor and the
// scale are one number, which saves a division an element.
template <class T, class Q>
OPTEST_INLINE float quantise_norm(const T* from, Q* to, const float* weight, int64_t n, RowFacts facts,
                                  float eps, bool past_caches) {
  const float factor = 1.0f / std::sqrt(facts.squares / static_cast<float>(n) + eps);
  const float scale = scale_for<Q>(bits_of(number_of(facts.largest) * factor) & kAbs);
  const float both = factor / scale;
  if (is_ordinary(scale) && is_ordinary(both)) {
    const F by = splat(both);
    const auto code = [=](F v, F w) OPTEST_LAMBDA { return encode(v * w * by, Q{}); };
    map<T>(to, n, past_caches, code, from, Columns{weight});
  } else {
    const F by = splat(factor);
    const auto divided = by_division<Q>(scale);
    const auto code = [=](F v, F w) OPTEST_LAMBDA { return divided(v * w * by); };
    map<T>(to, n, past_caches, code, from, Columns{weight});
  }
  return scale;
}

// One row of residual += x and its norm's codes; returns their scale.
template <class T, class Q>
float normed_row(const void* x, void* residual, void* out, const float* weight, int64_t n, float eps,
                 bool past_caches) {
  T* const sum = static_cast<T*>(residual);
  const RowFacts facts = add_row(static_cast<const T*>(x), sum, weight, n);
  const T* const kept = sum;
  return quantise_norm<T>(kept, static_cast<Q*>(out), weight, n, facts, eps, past_caches);
}

// ---- a number a column ----------------------------------------------------------------------------

template <class T, class Q>
float smooth_scale(const void* x, const float* columns, int64_t n) {
  const T* const from = static_cast<const T*>(x);
  LargestProduct<T> largest{columns};
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    ask_for_lines<4>(from + i);
    largest.take(from + i);
  }
  if (i < n) take_part(&largest, from + i, n - i);
  return scale_for<Q>(largest.result());
}

// The codes of a row's products by their scale; returns that of the next row. A product has all the bits
// of fp32, for which the quotient by the reciprocal may, in rare cases, be the neighbour of the nearest:
// a code differs only where that lies between two of them.
template <class T, class Q>
float smooth_row(const void* x, const void* next, void* out, const float* columns, int64_t n,
                 float scale, bool past_caches) {
  Q* const to = static_cast<Q*>(out);
  LargestProduct<T> largest{columns};
  const WithNext<T, LargestProduct<T>> in{static_cast<const T*>(x), static_cast<const T*>(next),
                                          &largest};
  if (kFma && is_ordinary(scale)) {
    const auto within = by_reciprocal_within<Q>(scale);
    const auto code = [=](F v, F w) OPTEST_LAMBDA { return within(v * w); };
    map<T>(to, n, past_caches, code, in, Columns{columns});
  } else {
    const auto divided = by_division<Q>(scale);
    const auto code = [=](F v, F w) OPTEST_LAMBDA { return divided(v * w); };
    map<T>(to, n, past_caches, code, in, Columns{columns});
  }
  return scale_for<Q>(largest.result());
}
