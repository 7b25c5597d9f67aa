// A causal convolution's step against the formula in fp64; the state moves on bit by bit.

#include "check.h"
#include "optest/conv_taps.h"

#define OPTEST_KERNELS "../../conv1d_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;

// Where the numbers of a state lie: columns side by side, positions side by side, with gaps.
struct Steps {
  int64_t column, position;
};

template <class T>
void check_step(int64_t width, bool silu) {
  Verdict verdict(std::string("conv_columns ") + kName<T> + ", width " + std::to_string(width) +
                  (silu ? ", silu" : ""));
  Random random(29);
  for (const int64_t n : kLengths) {
    for (const Steps steps : {Steps{1, n}, Steps{width, 1}, Steps{1, n + 3}}) {
      const int64_t held = width - 1;
      const Room<T> x = numbers<T>(random, n, 2.0), weight = numbers<T>(random, n * width);
      const Room<float> bias = numbers<float>(random, n);
      const int64_t size = (n - 1) * steps.column + std::max<int64_t>(held - 1, 0) * steps.position + 1;
      const Room<T> before = numbers<T>(random, size, 2.0);
      Room<T> state(before), y(n);
      Room<float> taps(n * width);
      neon::transpose_taps<T>(weight.data(), n, width, taps.data());
      const optest::Taps all{taps.data(), bias.data(), n, width, silu};
      neon::conv_columns<T>(x.data(), state.data(), steps.column, steps.position, all, y.data(), n);
      for (int64_t c = 0; c < n; ++c) {
        double total = double{bias[c]}, sizes = std::fabs(total);
        for (int64_t j = 0; j < width; ++j) {
          const int64_t at = c * steps.column + j * steps.position;
          const double value = wide(j < held ? before[at] : x[c]);
          total += value * wide(weight[c * width + j]);
          sizes += std::fabs(value * wide(weight[c * width + j]));
          if (j >= held) continue;
          const T moved = j + 1 < held ? before[at + steps.position] : x[c];
          verdict.same("state", &state[at], &moved, 1);
        }
        const double want = silu ? total / (1 + std::exp(-total)) : total;
        verdict.near("y", c, wide(y[c]), want, 1.02 * kHalfStep<T> + (silu ? 3e-5 : 0.0),
                     1e-6 + sizes * 0x1p-22);
      }
    }
  }
}

template <class T>
void check_widen() {
  Verdict verdict(std::string("widen_row, transpose_taps ") + kName<T>);
  Random random(30);
  for (const int64_t n : kLengths) {
    const Room<T> x = numbers<T>(random, 4 * n);
    Room<float> to(4 * n), taps(4 * n);
    neon::widen_row<T>(x.data(), 4 * n, to.data());
    neon::transpose_taps<T>(x.data(), n, 4, taps.data());
    for (int64_t i = 0; i < 4 * n; ++i) {
      verdict.near("widened", i, to[i], wide(x[i]), 0, 0);
      verdict.near("tap", i, taps[i % 4 * n + i / 4], wide(x[i]), 0, 0);
    }
  }
}

int main() {
  for_dtypes([](auto like) {
    using T = decltype(like);
    check_widen<T>();
    for (const int64_t width : {1, 2, 3, 4, 5}) check_step<T>(width, width % 2 == 0);
    check_step<T>(4, false);
  });
  return exit_code();
}
