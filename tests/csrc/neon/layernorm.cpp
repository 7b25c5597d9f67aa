// Layer normalisation of rows against the formula in fp64.

#include "check.h"

#define OPTEST_KERNELS "../../layernorm_kernels.inl"
#include "optest/each_isa.h"

#include "columns.h"

using namespace check;
namespace neon = optest::neon;

constexpr float kEps = 1e-5f;

template <class T>
void check_rows(double offset) {
  Verdict verdict(std::string("layernorm_row ") + kName<T> + ", mean " + std::to_string(offset));
  Random random(17);
  for (const int64_t n : kLengths) {
    Room<T> x(n);
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      x[i] = narrow_to<T>(random.normal() * 2 + offset);
      sum += wide(x[i]);
    }
    const double count = static_cast<double>(n), mean = sum / count;
    for (int64_t i = 0; i < n; ++i) squares += (wide(x[i]) - mean) * (wide(x[i]) - mean);
    const double factor = 1 / std::sqrt(squares / count + double{kEps});
    const Room<T> next = numbers<T>(random, n);
    const Room<T> weight = numbers<T>(random, n), bias = numbers<T>(random, n);
    Room<T> out(n);
    const float of_row = neon::row_sum<T>(x.data(), n);
    verdict.near("sum", n, of_row, sum, 1e-5, 1e-4);
    // What the sum is off by is found with the squares, and taken out of mean and variance.
    const float off = n < 8 ? 0.0f : 0.01f * static_cast<float>(n);
    const float of_next = neon::layernorm_row<T>(
        x.data(), next.data(), out.data(), columns_for<T>(weight).data(),
        columns_for<T>(bias).data(), n, kEps, of_row + off, n % 2 == 0);
    verdict.equal("sum of the next row", bits_as<int32_t>(of_next),
                  bits_as<int32_t>(neon::row_sum<T>(next.data(), n)));
    // fp32 has the mean to half a step of it.
    const double lost = std::fabs(offset) * 0x1p-23 * factor;
    for (int64_t i = 0; i < n; ++i) {
      const double want = (wide(x[i]) - mean) * factor * wide(weight[i]) + wide(bias[i]);
      verdict.near("row", i, wide(out[i]), want, 1.01 * kHalfStep<T>, 1e-5 + 4 * lost);
    }
  }
}

template <class T>
void check_special(T) {
  Verdict verdict(std::string("layernorm_row ") + kName<T> + " of one number, of NaN");
  const int64_t n = 31;
  Random random(18);
  const Room<T> weight = numbers<T>(random, n), bias = numbers<T>(random, n);
  Room<T> x(n), out(n);
  for (int64_t i = 0; i < n; ++i) x[i] = narrow_to<T>(3.0);
  for (const bool nan : {false, true}) {
    if (nan) x[n - 1] = narrow_to<T>(NAN);
    neon::layernorm_row<T>(x.data(), x.data(), out.data(), columns_for<T>(weight).data(),
                           columns_for<T>(bias).data(), n, kEps, neon::row_sum<T>(x.data(), n),
                           false);
    for (int64_t i = 0; i < n; ++i) {
      verdict.near("row", i, wide(out[i]), nan ? NAN : wide(bias[i]), 0, 0);
    }
  }
}

int main() {
  for_dtypes([](auto like) {
    check_rows<decltype(like)>(0.0);
    check_rows<decltype(like)>(50.0);
    check_special(like);
  });
  return exit_code();
}
