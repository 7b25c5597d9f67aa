// Gated activations against fp64.

#include "check.h"

#define OPTEST_KERNELS "../../activation_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;

double silu(double v) { return v / (1 + std::exp(-v)); }
double gelu(double v) { return v / 2 * std::erfc(-v / std::sqrt(2.0)); }
double gelu_tanh(double v) {
  const double u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
  return v / (1 + std::exp(-2 * u));
}

using Row = void (*)(const void*, const void*, void*, int64_t, bool);

// What fp32 inside may be wrong by, beside the rounding to T: fp32's own rows are held to more.
template <class T>
constexpr double kRelative = sizeof(T) == 4 ? 3e-6 : 3e-5;

template <class T>
void check_act(const char* name, Row row, double (*formula)(double)) {
  Verdict verdict(std::string(name) + " " + kName<T>);
  Random random(10);
  for (const int64_t n : kLengths) {
    const Room<T> gate = numbers<T>(random, n, 4.0);
    const Room<T> up = numbers<T>(random, n);
    Room<T> out(n);
    row(gate.data(), up.data(), out.data(), n, n % 2 == 0);
    for (int64_t i = 0; i < n; ++i) {
      verdict.near("row", i, wide(out[i]), formula(wide(gate[i])) * wide(up[i]),
                   1.02 * kHalfStep<T> + kRelative<T>, 1e-6);
    }
  }
}

// Relative, far into the tail: one that is cut off early or has the wrong sign shows here.
void check_range(const char* name, Row row, double (*formula)(double)) {
  Verdict verdict(std::string(name) + " fp32, over the whole range");
  constexpr int64_t n = 40001;
  Room<float> gate(n), up(n), out(n);
  for (int64_t i = 0; i < n; ++i) {
    gate[i] = -12.5f + 112.5f * static_cast<float>(i) / static_cast<float>(n - 1);
    up[i] = 1.0f;
  }
  row(gate.data(), up.data(), out.data(), n, false);
  for (int64_t i = 0; i < n; ++i) {
    verdict.near("row", i, out[i], formula(static_cast<double>(gate[i])), 2e-5, 1e-35);
  }
}

void check_special(const char* name, Row row) {
  Verdict verdict(std::string(name) + " fp32, zeros, infinity, NaN, far numbers");
  const float gate[] = {0.0f, -0.0f, INFINITY, NAN, 3e38f, -3e38f, 1e-30f, -200.0f, 200.0f};
  const float want[] = {0.0f, 0.0f, INFINITY, NAN, 3e38f, 0.0f, 5e-31f, 0.0f, 200.0f};
  float up[9], out[9];
  for (float& value : up) value = 1.0f;
  row(gate, up, out, 9, false);
  for (int i = 0; i < 9; ++i) verdict.near("row", i, out[i], want[i], 1e-6, 1e-30);
}

template <class T>
void check_dtype(T) {
  check_act<T>("silu", neon::silu_row<T>, silu);
  check_act<T>("gelu", neon::gelu_row<T>, gelu);
  check_act<T>("gelu_tanh", neon::gelu_tanh_row<T>, gelu_tanh);
}

int main() {
  for_dtypes([](auto like) { check_dtype(like); });
  check_range("silu", neon::silu_row<float>, silu);
  check_range("gelu", neon::gelu_row<float>, gelu);
  check_range("gelu_tanh", neon::gelu_tanh_row<float>, gelu_tanh);
  check_special("silu", neon::silu_row<float>);
  check_special("gelu", neon::gelu_row<float>);
  check_special("gelu_tanh", neon::gelu_tanh_row<float>);
  return exit_code();
}
