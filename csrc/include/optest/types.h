// The bits of the dtypes that C++ has no type for.
#pragma once

#include <cstdint>

namespace optest {

struct Bf16 {
  uint16_t bits;
};
struct Fp16 {
  uint16_t bits;
};
struct E4m3fn {
  uint8_t bits;
};
struct E4m3fnuz {
  uint8_t bits;
};

// Largest finite value, the one that saturation gives. int8 keeps to a symmetric range.
template <class T>
inline constexpr float kLargest = 0.0f;
template <>
inline constexpr float kLargest<E4m3fn> = 448.0f;
template <>
inline constexpr float kLargest<E4m3fnuz> = 240.0f;
template <>
inline constexpr float kLargest<int8_t> = 127.0f;

}  // namespace optest
