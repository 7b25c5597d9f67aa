// The numbers of the checks: scalar conversions by their definition, and pseudo-random ones to try.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "optest/types.h"

namespace check {

using optest::Bf16;
using optest::Fp16;

template <class T>
inline constexpr const char* kName = "fp32";
template <>
inline constexpr const char* kName<Bf16> = "bf16";
template <>
inline constexpr const char* kName<Fp16> = "fp16";

// Half a step, relative, of a number near 1.
template <class T>
inline constexpr double kHalfStep = 0x1p-24;
template <>
inline constexpr double kHalfStep<Bf16> = 0x1p-8;
template <>
inline constexpr double kHalfStep<Fp16> = 0x1p-11;

template <class To, class From>
To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

inline double wide(float value) { return value; }
inline double wide(Bf16 value) { return bits_as<float>(uint32_t{value.bits} << 16); }
inline double wide(Fp16 value) {
  const int exponent = value.bits >> 10 & 31;
  const int fraction = value.bits & 1023;
  double magnitude = std::ldexp(fraction + (exponent ? 1024 : 0), (exponent ? exponent : 1) - 25);
  if (exponent == 31) magnitude = fraction ? NAN : INFINITY;
  return value.bits & 0x8000 ? -magnitude : magnitude;
}

// The nearest multiple of the step that a float of `fraction` bits has at `value`, ties to even.
inline double on_grid(double value, int fraction, int least_exponent) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::ilogb(value) < least_exponent ? least_exponent : std::ilogb(value);
  return std::ldexp(std::nearbyint(std::ldexp(value, fraction - exponent)), exponent - fraction);
}

inline void narrow(double value, float* to) { *to = static_cast<float>(value); }
inline void narrow(double value, Bf16* to) {
  const double near = on_grid(value, 7, -126);
  const float single = static_cast<float>(near);  // exact, or infinite where bf16 is
  to->bits = std::isnan(value) ? 0x7fc0 : static_cast<uint16_t>(bits_as<uint32_t>(single) >> 16);
}
inline void narrow(double value, Fp16* to) {
  const double near = std::fabs(on_grid(value, 10, -14));
  uint32_t bits = 0x7c00;
  if (std::isnan(value)) {
    bits = 0x7e00;
  } else if (near < 0x1p-14) {
    bits = static_cast<uint32_t>(near * 0x1p24);
  } else if (near < 65536) {
    const int exponent = std::ilogb(near);
    bits = static_cast<uint32_t>(std::ldexp(near, 10 - exponent)) - 1024 +
           (static_cast<uint32_t>(exponent + 15) << 10);
  }
  to->bits = static_cast<uint16_t>(bits | (std::signbit(value) ? 0x8000 : 0));
}
template <class T>
T narrow_to(double value) {
  T to;
  narrow(value, &to);
  return to;
}

// The same numbers in each run: a fault that shows once shows again.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  uint32_t bits() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<uint32_t>(state_ >> 32);
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(bits()) % n; }
  double uniform() { return bits() * 0x1p-32; }
  // Of about the shape of a normal distribution of deviation 1.
  double normal() { return (uniform() + uniform() + uniform() + uniform() - 2) * 1.732; }

 private:
  uint64_t state_;
};

// Below, at and above the widths of vectors and of pairs of them; primes.
inline constexpr int64_t kLengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 31, 64, 127, 128, 129, 1021};

}  // namespace check
