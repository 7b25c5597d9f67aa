// A token drawn from a row of logits against a draw in fp64.

#include "check.h"
#include "optest/sampling_row.h"

#define OPTEST_KERNELS "../../sampling_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
using optest::Limits;
namespace neon = optest::neon;

// Sums and weights nearer than this, relative, to a limit may fall on either side of it.
constexpr double kRounding = 1e-5;

// Weights in order of rank, which tokens they are, and how many the limits keep; -1 where that is a
// question of rounding.
struct Ranking {
  std::vector<double> weights;
  std::vector<int64_t> tokens;
  int64_t kept;
};

template <class T>
Ranking ranked(const Room<T>& x, const Limits& limits) {
  const int64_t n = x.size();
  Ranking all;
  for (int64_t i = 0; i < n; ++i) all.tokens.push_back(i);
  std::stable_sort(all.tokens.begin(), all.tokens.end(),
                   [&](int64_t a, int64_t b) { return wide(x[a]) > wide(x[b]); });
  const double largest = wide(x[all.tokens[0]]);
  const int64_t most = limits.top_k <= 0 ? n : std::min(n, limits.top_k);
  double total = 0;
  for (int64_t j = 0; j < most; ++j) {
    all.weights.push_back(std::exp(wide(x[all.tokens[static_cast<size_t>(j)]]) - largest));
    total += all.weights.back();
  }
  double sum = 0;
  for (all.kept = 0; all.kept < most; ++all.kept) {
    const double weight = all.weights[static_cast<size_t>(all.kept)];
    if (all.kept > 0) {
      const double over = limits.top_p < 1 ? sum / total - limits.top_p : -1.0;
      const double under = limits.min_p > 0 ? double{limits.min_p} - weight : -1.0;
      if (std::fabs(over) < kRounding || std::fabs(under) < kRounding * weight) {
        all.kept = -1;
        break;
      }
      if (over > 0 || under > 0) break;
    }
    sum += weight;
  }
  return all;
}

// The token of the first sum, in the order of the vocabulary, that exceeds the target; -1 near to one.
int64_t drawn(const Ranking& all, double uniform) {
  std::vector<std::pair<int64_t, double>> kept;
  double total = 0, sum = 0;
  for (size_t j = 0; j < static_cast<size_t>(all.kept); ++j) {
    kept.emplace_back(all.tokens[j], all.weights[j]);
    total += all.weights[j];
  }
  std::sort(kept.begin(), kept.end());
  for (const auto& [token, weight] : kept) {
    sum += weight;
    if (std::fabs(sum - uniform * total) < kRounding * total) return -1;
    if (sum > uniform * total) return token;
  }
  return kept.back().first;
}

template <class T>
void check_row(T) {
  Verdict verdict(std::string("sample_row ") + kName<T>);
  Random random(32);
  int64_t left_out = 0, drawn_ones = 0;
  for (const int64_t n : {1, 2, 3, 5, 8, 13, 64, 127, 300, 1021}) {
    for (int round = 0; round < 40; ++round) {
      const Room<T> x = numbers<T>(random, n, round % 4 == 0 ? 0.3 : 3.0);
      if (round % 5 == 0) x[random.below(n)] = narrow_to<T>(n > 1 ? -HUGE_VAL : 0.0);
      const int64_t top_k[] = {0, 1, 7, 50, n};
      const double top_p[] = {1.0, 0.9, 0.3};
      const float min_p[] = {0.0f, 0.0f, 0.05f};
      const Limits limits{top_k[random.below(5)], top_p[random.below(3)], min_p[random.below(3)],
                          random.uniform()};
      const Ranking all = ranked(x, limits);
      const int64_t want = all.kept < 0 ? -1 : drawn(all, limits.uniform);
      optest::Scratch scratch;
      const int64_t got = neon::sample_row<T>(x.data(), n, limits, &scratch);
      drawn_ones += 1;
      left_out += want < 0;
      if (want >= 0) verdict.equal("token", got, want);
    }
  }
  // A few questions of rounding may be left out, no more.
  verdict.take(left_out * 20 < drawn_ones, "left out", 0, static_cast<double>(left_out), 0);
}

int main() {
  for_dtypes([](auto like) { check_row(like); });
  return exit_code();
}
