// Quantisation of rows: q = round(x / scale), saturated, to nearest with ties to even. Every quotient
// is the correctly rounded fp32 one, so that results equal a plain fp32 reference in every bit.

#include "optest/vec.inl"

// ---- codes ----------------------------------------------------------------------------------------

// An 8-bit float with 3 bits of mantissa and the smallest normal exponent kMin, without its sign, in the
// low bits of each lane. Adding 2^20 times the power of two below |value| leaves exactly 3 bits after
// the point, so the hardware does the rounding; the sum then holds the exponent's part of the code in
// its upper bits, the mantissa's in its lower ones, and `bias` brings the two to one origin.
template <int kMin>
OPTEST_INLINE U magnitude_code(F value) {
  constexpr uint32_t smallest = static_cast<uint32_t>(127 + kMin) << 23;
  constexpr uint32_t bias = (256u - 8u * (127 + 20 + kMin) % 256u) % 256u;
  const F power = (F)larger((U)value & kInf, U{} + smallest);
  // The product is exact. `bias` counts steps, of which there are 8 to the power of two.
  const U sum = (U)fma(power, splat(0x1p20f + bias / 8), (F)((U)value & kAbs));
  return sum + (sum >> 20);
}

// Codes of |value| below the largest finite value plus half a step. Only the low byte of a lane counts.
OPTEST_INLINE U encode(F value, E4m3fn) {
  return magnitude_code<-6>(value) | ((U)value >> 24 & 0x80u);
}

// There is no negative zero: 0x80 is NaN.
OPTEST_INLINE U encode(F value, E4m3fnuz) {
  const U code = magnitude_code<-7>(value);
  return choose((code & 0xffu) != 0u, code | ((U)value >> 24 & 0x80u), code);
}

// Adding 1.5 * 2^23 rounds to an integer, which the low bits then hold.
OPTEST_INLINE U encode(F value, int8_t) { return (U)(value + 0x1.8p23f); }

template <class Q>
constexpr uint32_t kNanCode = 0;
template <>
constexpr uint32_t kNanCode<E4m3fn> = 0x7f;
template <>
constexpr uint32_t kNanCode<E4m3fnuz> = 0x80;

template <class Q>
OPTEST_INLINE U encode_or_nan(F value) {
  return choose(exceeds((U)value & kAbs, kInf), U{} + kNanCode<Q>, encode(value, Q{}));
}

// ---- quotients ------------------------------------------------------------------------------------

// Whether multiply_by_reciprocal is exact where it matters: nothing under- or overflows between.
OPTEST_INLINE bool is_ordinary(float scale) { return scale >= 0x1p-80f && scale <= 0x1p100f; }

// x / scale without a division: the product with the rounded reciprocal, corrected once by its
// remainder. For bf16 and fp16 x and an ordinary scale this is the correctly rounded quotient (true of
// all 2^33 pairs of mantissas), save for results below 2^-20, which round to zero all the same. The
// remainder is taken negative so that -0 stays -0.
OPTEST_INLINE F multiply_by_reciprocal(F x, F scale, F reciprocal) {
  const F near = x * reciprocal;
  return fnma(fms(near, scale, x), reciprocal, near);
}

template <class T>
constexpr bool kShortMantissa = kFma;
template <>
constexpr bool kShortMantissa<float> = false;

OPTEST_INLINE F clamp(F value, F limit) { return at_least(at_most(value, limit), -limit); }

// Three ways from x to its code, each for one scale. For any x and scale:
template <class Q>
OPTEST_INLINE auto by_division(float scale) {
  const F divisor = splat(scale);
  const F largest = splat(kLargest<Q>);
  return [=](F x) OPTEST_LAMBDA { return encode_or_nan<Q>(clamp(x / divisor, largest)); };
}

// For any x of 16 bits, by an ordinary scale. Beyond the limit all saturates, and an infinity would spoil
// the remainder.
template <class Q>
OPTEST_INLINE auto by_reciprocal(float scale) {
  const F divisor = splat(scale);
  const F reciprocal = splat(1.0f / scale);
  const F limit = splat(scale * kLargest<Q>);
  return [=](F x) OPTEST_LAMBDA {
    return encode_or_nan<Q>(multiply_by_reciprocal(clamp(x, limit), divisor, reciprocal));
  };
}

// For x of 16 bits of which an ordinary scale was found: all are numbers, none is beyond the limit.
template <class Q>
OPTEST_INLINE auto by_reciprocal_within(float scale) {
  const F divisor = splat(scale);
  const F reciprocal = splat(1.0f / scale);
  return [=](F x) OPTEST_LAMBDA {
    return encode(multiply_by_reciprocal(x, divisor, reciprocal), Q{});
  };
}

// ---- rows -----------------------------------------------------------------------------------------

// scale = largest |x| / largest finite value; 1 where that is zero, so that zeros decode to zeros.
template <class Q>
float scale_for(uint32_t largest) {
  float magnitude;
  std::memcpy(&magnitude, &largest, sizeof magnitude);
  const float scale = magnitude / kLargest<Q>;
  return scale == 0.0f ? 1.0f : scale;
}

template <class T>
uint32_t largest_bits_of(const void* x, int64_t n) {
  return reduced<LargestBits<T>>(static_cast<const T*>(x), n);
}

// n elements by a given scale.
template <class T, class Q>
void quantise_by(const void* x, void* out, int64_t n, float scale, bool past_caches) {
  const Streamed<T, 4> in{static_cast<const T*>(x)};
  Q* const to = static_cast<Q*>(out);
  if constexpr (kShortMantissa<T>) {
    if (is_ordinary(scale)) return map<T>(to, n, past_caches, by_reciprocal<Q>(scale), in);
  }
  map<T>(to, n, past_caches, by_division<Q>(scale), in);
}

// The scale of each `group` elements of a row; the last group may be shorter.
template <class T, class Q>
void find_scales(const void* x, float* scales, int64_t n, int64_t group) {
  for (int64_t i = 0, g = 0; i < n; i += group, ++g) {
    const int64_t some = n - i < group ? n - i : group;
    scales[g] = scale_for<Q>(reduced<LargestBits<T>>(static_cast<const T*>(x) + i, some));
  }
}

// One row by the scales of its groups; finds those of the next row meanwhile.
template <class T, class Q>
void quantise_row(const void* x, const void* next, void* out, const float* scales,
                  float* next_scales, int64_t n, int64_t group, bool past_caches) {
  for (int64_t i = 0, g = 0; i < n; i += group, ++g) {
    const int64_t some = n - i < group ? n - i : group;
    Q* const to = static_cast<Q*>(out) + i;
    LargestBits<T> largest;
    const WithNext<T, LargestBits<T>> in{static_cast<const T*>(x) + i,
                                         static_cast<const T*>(next) + i, &largest};
    if (kShortMantissa<T> && is_ordinary(scales[g])) {
      map<T>(to, some, past_caches, by_reciprocal_within<Q>(scales[g]), in);
    } else {
      map<T>(to, some, past_caches, by_division<Q>(scales[g]), in);
    }
    next_scales[g] = scale_for<Q>(largest.result());
  }
}
