// act(a) * b of rows [a, b], in fp32.

#include "optest/vec.inl"

// Coefficients of the lowest power first. Even and odd powers apart, so that half of the steps need not
// wait for the other half.
template <int kTerms>
OPTEST_INLINE F polynomial(F x, const float (&coefficients)[kTerms]) {
  const F square = x * x;
  F even = splat(coefficients[(kTerms - 1) / 2 * 2]);
  F odd = splat(coefficients[kTerms / 2 * 2 - 1]);
  for (int i = (kTerms - 1) / 2 * 2 - 2; i >= 0; i -= 2) {
    even = fma(even, square, splat(coefficients[i]));
  }
  for (int i = kTerms / 2 * 2 - 3; i >= 0; i -= 2) odd = fma(odd, square, splat(coefficients[i]));
  return fma(odd, x, even);
}

// Results are rounded to T: what fp32 shows of a difference of 1e-5, relative, 16 bits do not, nor bf16
// one of 6e-5.
template <class T>
constexpr bool kFine = sizeof(T) == 4;

// 1 / value for value >= 1.
template <class T>
OPTEST_INLINE F reciprocal_for(F value) {
#if defined(OPTEST_ISA_AVX512)
  if constexpr (std::is_same_v<T, Bf16>) return (F)_mm512_rcp14_ps((__m512)value);
#endif
  return reciprocal_of(value);
}

#if defined(OPTEST_ISA_AVX512)
// 2^x in the lanes that count and 0 in the others, by a polynomial for 2^f, f from 0 to 1: as exact as that
// is, and what rounds off x, which may be any number. The machine takes the fraction of x and scales by the
// rest.
template <int kTerms>
OPTEST_INLINE F power_of_two(F x, const float (&of_fraction)[kTerms], __mmask16 counts = 0xffff) {
  constexpr int kBelow = 1;  // rounding down, to no bits after the point
  const F fraction = (F)_mm512_reduce_ps((__m512)x, kBelow);
  const F power = polynomial(fraction, of_fraction);
  return (F)_mm512_maskz_scalef_ps(counts, (__m512)power, (__m512)x);
}
#endif

// e^x for |x| up to 87, by a polynomial for e^r, |r| at most ln(2)/2: to 1e-7 of it or, less exact, 4e-6.
// Beyond, e^87 or infinity, e^-87 or zero.
template <class T>
OPTEST_INLINE F exponential(F x) {
#if defined(OPTEST_ISA_AVX512)
  static constexpr float kOfFraction[] = {1.00000349f, 0.692972922f, 0.241604357f, 0.0517449978f,
                                          0.0136703095f};  // to 4e-6
  if constexpr (!kFine<T>) return power_of_two(x * 1.44269504f, kOfFraction);
#endif
  static constexpr float kPolynomial[] = {1.0f,           1.00000004f,    0.500000005f, 0.166664145f,
                                          0.0416663516f, 0.0083752102f, 0.00139412131f};
  static constexpr float kShort[] = {1.0f, 0.999962143f, 0.499993696f, 0.167923948f, 0.0418760635f};
  constexpr float kEdge = 87.0f;
  const F within = at_least(at_most(x, splat(kEdge)), splat(-kEdge));
  // 1.5 * 2^23 rounds the product to an integer and leaves it in the low bits.
  const F shifted = fma(within, splat(1.44269504f), splat(0x1.8p23f));
  const F n = shifted - 0x1.8p23f;
  const F power = (F)(((U)shifted + 127u) << 23);
  F value;
  if constexpr (kFine<T>) {
    // ln(2) in two parts, of which the first has room for n times it.
    const F high = fnma(n, splat(0x1.62e4p-1f), within);
    value = polynomial(fnma(n, splat(1.42860682e-6f), high), kPolynomial) * power;
  } else {
    value = polynomial(fnma(n, splat(0.693147181f), within), kShort) * power;
  }
  return choose(x > kEdge, (F)(U{} + kInf), value);
}

// 1 / (1 + e^-x).
template <class T>
OPTEST_INLINE F sigmoid(F x) {
  return reciprocal_for<T>(exponential<T>(-x) + 1.0f);
}

template <class T>
struct Silu {
  static OPTEST_INLINE F of(F x) { return x * sigmoid<T>(x); }
};

// x / 2 * (1 + erf(x / sqrt(2))) as x times the normal distribution's integral up to x. Of its tail
// e^(-x^2/2) is taken out; what is left is a polynomial in t = 1 / (1 + c |x|), to 4e-8 or 2e-5, relative.
template <class T>
struct Gelu {
  static OPTEST_INLINE F of(F x) {
    static constexpr float kTail[] = {0.139618713f,   0.139912298f, 0.119444917f,
                                      0.107114588f,   -0.0270466083f, 0.165050996f,
                                      -0.260961228f, 0.14654583f,  -0.029679522f};
    static constexpr float kShort[] = {0.120236073f,   0.111931674f, 0.151680075f,
                                       -0.0313248388f, 0.228980591f, -0.0815045327f};
    constexpr float kFar = 13.0f;  // where e^-x^2/2 passes below e^-84
    const F magnitude = at_most((F)((U)x & kAbs), splat(kFar));
    const F t = reciprocal_for<T>(fma(magnitude, splat(kFine<T> ? 0.35f : 0.3f), splat(1.0f)));
    F share;
    if constexpr (kFine<T>) {
      share = t * polynomial(t, kTail);
    } else {
      share = t * polynomial(t, kShort);
    }
    const F near = exponential<T>(magnitude * magnitude * -0.5f) * share;
    const F tail = choose(magnitude < kFar, near, magnitude - kFar);  // 0, or NaN
    return x * choose(x < 0.0f, tail, 1.0f - tail);
  }
};

// x / 2 * (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3), which is x / (1 + e^(-2u)).
template <class T>
struct GeluTanh {
  static OPTEST_INLINE F of(F x) {
    const F cubic = fma(x * x, splat(0.044715f), splat(1.0f)) * x;
    return x * sigmoid<T>(cubic * 1.59576912f);
  }
};

template <class T, class Activation>
void activate_row(const void* gate, const void* up, void* out, int64_t n, bool past_caches) {
  const auto both = [](F a, F b) OPTEST_LAMBDA { return Activation::of(a) * b; };
  map<T>(static_cast<T*>(out), n, past_caches, both, Streamed<T, 1>{static_cast<const T*>(gate)},
         Streamed<T, 1>{static_cast<const T*>(up)});
}

template <class T>
void silu_row(const void* gate, const void* up, void* out, int64_t n, bool past_caches) {
  activate_row<T, Silu<T>>(gate, up, out, n, past_caches);
}

template <class T>
void gelu_row(const void* gate, const void* up, void* out, int64_t n, bool past_caches) {
  activate_row<T, Gelu<T>>(gate, up, out, n, past_caches);
}

template <class T>
void gelu_tanh_row(const void* gate, const void* up, void* out, int64_t n, bool past_caches) {
  activate_row<T, GeluTanh<T>>(gate, up, out, n, past_caches);
}
