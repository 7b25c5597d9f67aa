// act(a) * b of rows [a, b], in fp32.

#include "optest/vec.inl"

// Coefficients of the lowest power first.
template <int kTerms>
OPTEST_INLINE F polynomial(F x, const float (&coefficients)[kTerms]) {
  F value = splat(coefficients[kTerms - 1]);
  for (int i = kTerms - 2; i >= 0; --i) value = fma(value, x, splat(coefficients[i]));
  return value;
}

// e^x to about 1e-7, relative: 2^n e^r with |r| at most ln(2)/2 and a polynomial for e^r. Above 88.37 it
// is infinite, below -87.3 zero: what fp32 cannot hold, but for a sliver at either end.
OPTEST_INLINE F exponential(F x) {
  static constexpr float kPolynomial[] = {1.0f,           1.00000004f,    0.500000005f, 0.166664145f,
                                          0.0416663516f, 0.0083752102f, 0.00139412131f};
  constexpr float kHighest = 88.37f;
  constexpr float kLowest = -87.3f;
  const F within = at_least(at_most(x, splat(kHighest)), splat(kLowest));
  // 1.5 * 2^23 rounds the product to an integer and leaves it in the low bits.
  const F shifted = fma(within, splat(1.44269504f), splat(0x1.8p23f));
  const F n = shifted - 0x1.8p23f;
  // ln(2) in two parts, of which the first has room for n times it.
  const F high = fnma(n, splat(0x1.62e4p-1f), within);
  const F r = fnma(n, splat(1.42860682e-6f), high);
  const F power = (F)(((U)shifted + 127u) << 23);
  const F value = polynomial(r, kPolynomial) * power;
  const F capped = choose(x > kHighest, (F)(U{} + kInf), value);
  return choose(x < kLowest, F{}, capped);
}

struct Silu {
  static OPTEST_INLINE F of(F x) { return x / (exponential(-x) + 1.0f); }
};

// x / 2 * (1 + erf(x / sqrt(2))) as x times the normal distribution's integral up to x. Of its tail
// e^(-x^2/2) is taken out; what is left is a polynomial in t = 1 / (1 + 0.35 |x|), to 4e-8, relative.
struct Gelu {
  static OPTEST_INLINE F of(F x) {
    static constexpr float kTail[] = {0.139618713f,   0.139912298f, 0.119444917f,
                                      0.107114588f,   -0.0270466083f, 0.165050996f,
                                      -0.260961228f, 0.14654583f,  -0.029679522f};
    const F magnitude = (F)((U)x & kAbs);
    const F t = 1.0f / fma(magnitude, splat(0.35f), splat(1.0f));
    const F tail = exponential(x * x * -0.5f) * (t * polynomial(t, kTail));
    return x * choose(x < 0.0f, tail, 1.0f - tail);
  }
};

// x / 2 * (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), which is x / (1 + e^(-2u)).
struct GeluTanh {
  static OPTEST_INLINE F of(F x) {
    const F cubic = fma(x * x, splat(0.044715f), splat(1.0f)) * x;
    return x / (exponential(cubic * -1.59576912f) + 1.0f);
  }
};

template <class T, class Activation>
void activate_row(const void* gate, const void* up, void* out, int64_t n, bool past_caches) {
  const auto both = [](F a, F b) OPTEST_LAMBDA { return Activation::of(a) * b; };
  map(static_cast<T*>(out), n, past_caches, both, static_cast<const T*>(gate),
      static_cast<const T*>(up));
}

template <class T>
void silu_row(const void* gate, const void* up, void* out, int64_t n, bool past_caches) {
  activate_row<T, Silu>(gate, up, out, n, past_caches);
}

template <class T>
void gelu_row(const void* gate, const void* up, void* out, int64_t n, bool past_caches) {
  activate_row<T, Gelu>(gate, up, out, n, past_caches);
}

template <class T>
void gelu_tanh_row(const void* gate, const void* up, void* out, int64_t n, bool past_caches) {
  activate_row<T, GeluTanh>(gate, up, out, n, past_caches);
}
