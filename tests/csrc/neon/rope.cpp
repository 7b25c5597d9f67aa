// Rotary embedding of heads, with and without their RMSNorm, against the formula in fp64.

#include "check.h"

#define OPTEST_KERNELS "../../rope_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;

constexpr float kEps = 1e-6f;
constexpr int64_t kHeads = 3;
// Head sizes and what turns of them: of whole vectors, and with ragged halves.
constexpr int64_t kSizes[][2] = {{2, 2},   {6, 6},    {7, 4},     {10, 6},  {64, 64},
                                 {80, 32}, {128, 94}, {128, 128}, {256, 64}};

// One head turned by the first and second half of a row of cosines and sines.
template <class C>
std::vector<double> turned(const std::vector<double>& head, const Room<C>& row, int64_t rotary,
                           bool neox) {
  std::vector<double> made = head;
  const int64_t half = rotary / 2;
  for (int64_t i = 0; i < half; ++i) {
    const size_t first = static_cast<size_t>(neox ? i : 2 * i);
    const size_t second = static_cast<size_t>(neox ? half + i : 2 * i + 1);
    const double c = wide(row[i]), s = wide(row[half + i]);
    made[first] = head[first] * c - head[second] * s;
    made[second] = head[second] * c + head[first] * s;
  }
  return made;
}

template <class T>
std::vector<double> head_of(const Room<T>& x, int64_t from, int64_t size) {
  std::vector<double> head;
  for (int64_t i = 0; i < size; ++i) head.push_back(wide(x[from + i]));
  return head;
}

std::vector<double> normed(std::vector<double> head, const Room<float>& weight) {
  double squares = 0;
  for (const double value : head) squares += value * value;
  const double factor = 1 / std::sqrt(squares / static_cast<double>(head.size()) + double{kEps});
  for (size_t i = 0; i < head.size(); ++i) {
    head[i] *= factor * double{weight[static_cast<int64_t>(i)]};
  }
  return head;
}

template <class C>
Room<C> angles(Random& random, int64_t rotary) {
  Room<C> row(rotary);
  for (int64_t i = 0; i < rotary / 2; ++i) {
    const double angle = random.uniform() * 1000;
    row[i] = narrow_to<C>(std::cos(angle));
    row[rotary / 2 + i] = narrow_to<C>(std::sin(angle));
  }
  return row;
}

template <class T, class C>
void check_turns(bool neox, bool with_norm) {
  Verdict verdict(std::string(with_norm ? "norm_and_turn_heads " : "turn_heads ") + kName<T> +
                  ", cache " + kName<C> + (neox ? ", neox" : ", gptj"));
  Random random(16);
  for (const auto& [size, rotary] : kSizes) {
    const int64_t step = size + 3;
    const Room<T> before = numbers<T>(random, (kHeads - 1) * step + size, 2.0);
    Room<T> x(before);
    const Room<C> row = angles<C>(random, rotary);
    Room<float> cos(neon::angles_room(rotary)), sin(neon::angles_room(rotary));
    neon::read_angles<C>(row.data(), cos.data(), sin.data(), rotary, neox);
    // With room for a whole vector from any weight on.
    const Room<float> weight = numbers<float>(random, size + neon::kLanes);
    if (with_norm) {
      neon::norm_and_turn_heads<T>(x.data(), kHeads, step, cos.data(), sin.data(), rotary, neox,
                                   weight.data(), size, kEps);
    } else {
      neon::turn_heads<T>(x.data(), kHeads, step, cos.data(), sin.data(), rotary, neox);
    }
    for (int64_t h = 0; h < kHeads; ++h) {
      std::vector<double> head = head_of(before, h * step, size);
      if (with_norm) head = normed(head, weight);
      const std::vector<double> want = turned(head, row, rotary, neox);
      for (int64_t i = 0; i < size; ++i) {
        verdict.near("head", i, wide(x[h * step + i]), want[static_cast<size_t>(i)],
                     1.01 * kHalfStep<T>, 3e-6);
      }
      for (int64_t i = h * step + size; h + 1 < kHeads && i < (h + 1) * step; ++i) {
        verdict.near("between heads", i, wide(x[i]), wide(before[i]), 0, 0);
      }
    }
  }
}

void check_neighbours() {
  Verdict verdict("neighbours change places");
  const float from[] = {1, 2, 3, 4};
  const float want[] = {2, 1, 4, 3};
  float got[4];
  neon::store_raw(got, neon::neighbours(neon::load(from)));
  verdict.same("neon", got, want, 4);
}

int main() {
  check_neighbours();
  for_dtypes([](auto like) {
    using T = decltype(like);
    for (const bool neox : {true, false}) {
      check_turns<T, float>(neox, false);
      check_turns<T, T>(neox, true);
    }
  });
  check_turns<float, Bf16>(true, false);
  check_turns<float, Fp16>(false, false);
  return exit_code();
}
