// The gated delta rule of one head against its recurrence in fp64.

#include "check.h"
#include "optest/delta_head.h"

#define OPTEST_KERNELS "../../delta_rule_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;

// Tokens, sizes of keys and of values: below, at and above the vectors that are taken together.
constexpr int64_t kShapes[][3] = {{1, 1, 1}, {1, 5, 3},    {3, 7, 13},   {2, 64, 32},
                                  {1, 128, 128}, {5, 13, 37}, {2, 32, 67}};

template <class T>
void check_head(T) {
  Verdict verdict(std::string("delta_head ") + kName<T>);
  Random random(31);
  constexpr int64_t gap = 3;
  for (const auto& [tokens, keys, values] : kShapes) {
    const int64_t k_step = keys + gap, v_step = values + gap;
    const double unit = 1 / std::sqrt(static_cast<double>(keys));
    const Room<T> q = numbers<T>(random, (tokens - 1) * k_step + keys, unit);
    const Room<T> k = numbers<T>(random, (tokens - 1) * k_step + keys, unit);
    const Room<T> v = numbers<T>(random, (tokens - 1) * v_step + values);
    const Room<T> out((tokens - 1) * v_step + values);
    Room<float> g(tokens), beta(tokens), room(2 * keys);
    Room<float> state = numbers<float>(random, keys * values);
    for (int64_t t = 0; t < tokens; ++t) {
      g[t] = static_cast<float>(-random.uniform());
      beta[t] = static_cast<float>(random.uniform());
    }
    std::vector<double> held(state.data(), state.data() + keys * values);
    constexpr double kScale = 0.125;
    neon::delta_head<T>({q.data(), k.data(), v.data(), out.data(), g.data(), beta.data(),
                         state.data(), room.data(), k_step, k_step, v_step, v_step, 1, tokens, keys,
                         values, static_cast<float>(kScale)});
    for (int64_t t = 0; t < tokens; ++t) {
      for (double& number : held) number *= std::exp(double{g[t]});
      for (int64_t c = 0; c < values; ++c) {
        const auto at = [&](int64_t row) -> double& {
          return held[static_cast<size_t>(row * values + c)];
        };
        double under_key = 0, result = 0;
        for (int64_t r = 0; r < keys; ++r) under_key += at(r) * wide(k[t * k_step + r]);
        const double delta = (wide(v[t * v_step + c]) - under_key) * double{beta[t]};
        for (int64_t r = 0; r < keys; ++r) {
          at(r) += wide(k[t * k_step + r]) * delta;
          result += at(r) * wide(q[t * k_step + r]);
        }
        verdict.near("out", c, wide(out[t * v_step + c]), result * kScale, 1.01 * kHalfStep<T>,
                     5e-6);
      }
    }
    for (int64_t i = 0; i < keys * values; ++i) {
      verdict.near("state", i, state[i], held[static_cast<size_t>(i)], 0, 1e-5);
    }
  }
}

int main() {
  for_dtypes([](auto like) { check_head(like); });
  return exit_code();
}
