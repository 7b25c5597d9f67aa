// Codes of 8 bits by their definition: the nearest of all, ties to the even one, saturated.
#pragma once

#include "numbers.h"

namespace check {

using optest::E4m3fn;
using optest::E4m3fnuz;

template <class Q>
inline constexpr const char* kCodeName = "int8";
template <>
inline constexpr const char* kCodeName<E4m3fn> = "e4m3fn";
template <>
inline constexpr const char* kCodeName<E4m3fnuz> = "e4m3fnuz";

inline uint8_t float_code(double value, int bias) {
  const double magnitude = std::fabs(on_grid(value, 3, 1 - bias));
  uint8_t code;
  if (magnitude < std::ldexp(1.0, 1 - bias)) {
    code = static_cast<uint8_t>(std::ldexp(magnitude, bias + 2));
  } else {
    const int exponent = std::ilogb(magnitude);
    code = static_cast<uint8_t>(static_cast<int>(std::ldexp(magnitude, 3 - exponent)) - 8 +
                                8 * (exponent + bias));
  }
  return static_cast<uint8_t>(code | (std::signbit(value) ? 0x80 : 0));
}

template <class Q>
double saturated(double value) {
  const double limit = static_cast<double>(optest::kLargest<Q>);
  return value > limit ? limit : value < -limit ? -limit : value;
}

inline uint8_t code_of(double value, int8_t) {
  if (std::isnan(value)) return 0;
  return static_cast<uint8_t>(static_cast<int>(std::nearbyint(saturated<int8_t>(value))));
}
inline uint8_t code_of(double value, E4m3fn) {
  return std::isnan(value) ? 0x7f : float_code(saturated<E4m3fn>(value), 7);
}
inline uint8_t code_of(double value, E4m3fnuz) {
  if (std::isnan(value)) return 0x80;
  const uint8_t code = float_code(saturated<E4m3fnuz>(value), 8);
  return code == 0x80 ? 0 : code;
}

inline double float_value(uint8_t code, int bias) {
  const int exponent = code >> 3 & 15, fraction = code & 7;
  const double magnitude =
      std::ldexp(fraction + (exponent ? 8 : 0), (exponent ? exponent : 1) - bias - 3);
  return code & 0x80 ? -magnitude : magnitude;
}
inline double wide(E4m3fn code) {
  return (code.bits & 0x7f) == 0x7f ? NAN : float_value(code.bits, 7);
}
inline double wide(E4m3fnuz code) {
  return code.bits == 0x80 ? NAN : float_value(code.bits, 8);
}

template <>
inline E4m3fn narrow_to<E4m3fn>(double value) {
  return {code_of(value, E4m3fn{})};
}
template <>
inline E4m3fnuz narrow_to<E4m3fnuz>(double value) {
  return {code_of(value, E4m3fnuz{})};
}

// body(Q{}) for each dtype of codes.
template <class Body>
void for_codes(const Body& body) {
  body(int8_t{});
  body(E4m3fn{});
  body(E4m3fnuz{});
}

}  // namespace check
