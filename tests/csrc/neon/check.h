// What every check of a kernel family uses. Comes before each_isa.h, which reads kernels in namespaces.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "numbers.h"
#include "room.h"
#include "verdict.h"

namespace check {

// n random numbers times `scale`.
template <class T>
Room<T> numbers(Random& random, int64_t n, double scale = 1.0) {
  Room<T> made(n);
  for (int64_t i = 0; i < n; ++i) made[i] = narrow_to<T>(random.normal() * scale);
  return made;
}

// body(T{}) for each dtype that rows have.
template <class Body>
void for_dtypes(const Body& body) {
  body(float{});
  body(Bf16{});
  body(Fp16{});
}

}  // namespace check
