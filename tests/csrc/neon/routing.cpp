// Routing of a token among experts against a choice in fp64.

#include "check.h"

#define OPTEST_KERNELS "../../routing_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;

// Numbers whose distances fp32 and 16 bits both hold, in any order, so that there is one right choice.
template <class T>
Room<T> logits(Random& random, int64_t n) {
  Room<T> x(n);
  for (int64_t i = 0; i < n; ++i) x[i] = narrow_to<T>(static_cast<double>(i - n / 2) / 64.0);
  for (int64_t i = n - 1; i > 0; --i) std::swap(x[i], x[random.below(i + 1)]);
  return x;
}

// Takes the largest of what is left.
int64_t take_largest(std::vector<double>& left) {
  const auto at = std::max_element(left.begin(), left.end());
  *at = -HUGE_VAL;
  return at - left.begin();
}

template <class T>
void check_softmax(bool renormalize) {
  Verdict verdict(std::string("topk_softmax_row ") + kName<T> + (renormalize ? ", of those chosen" : ""));
  Random random(22);
  for (const int64_t n : {1, 2, 5, 8, 13, 64, 127, 256}) {
    for (const int64_t k : {int64_t{1}, std::min<int64_t>(n, 8)}) {
      const Room<T> x = logits<T>(random, n);
      Room<float> scratch(neon::scratch_room(1, n)), weights(k);
      Room<int32_t> ids(k);
      neon::topk_softmax_row<T>(x.data(), n, k, renormalize, scratch.data(), weights.data(),
                                ids.data());
      std::vector<double> left;
      for (int64_t i = 0; i < n; ++i) left.push_back(wide(x[i]));
      double all = 0, chosen = 0;
      for (const double value : left) all += std::exp(value);
      std::vector<int64_t> order;
      for (int64_t j = 0; j < k; ++j) order.push_back(take_largest(left));
      for (const int64_t i : order) chosen += std::exp(wide(x[i]));
      for (int64_t j = 0; j < k; ++j) {
        const int64_t i = order[static_cast<size_t>(j)];
        verdict.equal("ids", ids[j], i);
        const double want = std::exp(wide(x[i])) / (renormalize ? chosen : all);
        verdict.near("weights", j, weights[j], want, 1e-5, 0);
      }
    }
  }
}

struct Choice {
  int64_t groups, size, kept, k;
};
constexpr Choice kChoices[] = {{1, 1, 1, 1},  {1, 7, 1, 3},  {3, 5, 2, 4},   {5, 1, 3, 3},
                               {8, 32, 4, 8}, {8, 13, 8, 6}, {12, 16, 1, 8}, {4, 9, 3, 27}};

// The formula: sigmoid and bias, groups by the sum of their two best, the best k of those kept.
std::vector<int64_t> choose(const std::vector<double>& biased, const Choice& choice) {
  const auto size = static_cast<size_t>(choice.size);
  std::vector<double> left = biased;
  std::vector<double> sums;
  for (size_t g = 0; g < static_cast<size_t>(choice.groups); ++g) {
    std::vector<double> group(&biased[g * size], &biased[g * size] + size);
    std::sort(group.begin(), group.end(), std::greater<double>());
    sums.push_back(size > 1 ? group[0] + group[1] : group[0]);
  }
  for (int64_t j = 0; j < choice.kept; ++j) take_largest(sums);
  for (size_t i = 0; i < left.size(); ++i) {
    if (sums[i / size] != -HUGE_VAL) left[i] = -HUGE_VAL;
  }
  std::vector<int64_t> order;
  for (int64_t j = 0; j < choice.k; ++j) order.push_back(take_largest(left));
  return order;
}

template <class T>
void check_grouped(bool renormalize) {
  Verdict verdict(std::string("grouped_topk_row ") + kName<T> + (renormalize ? ", of those chosen" : ""));
  Random random(23);
  constexpr double kScale = 2.5;
  for (const Choice& choice : kChoices) {
    const int64_t n = choice.groups * choice.size;
    const Room<T> x = logits<T>(random, n);
    const Room<float> bias = numbers<float>(random, n, 0.3);
    Room<float> scratch(neon::scratch_room(choice.groups, choice.size)), weights(choice.k);
    Room<int32_t> ids(choice.k);
    neon::grouped_topk_row<T>(x.data(), bias.data(), choice.groups, choice.size, choice.kept, choice.k,
                              renormalize, static_cast<float>(kScale), scratch.data(),
                              weights.data(), ids.data());
    std::vector<double> scores, biased;
    for (int64_t i = 0; i < n; ++i) {
      scores.push_back(1 / (1 + std::exp(-wide(x[i]))));
      biased.push_back(scores.back() + double{bias[i]});
    }
    const std::vector<int64_t> order = choose(biased, choice);
    double sum = 0;
    for (const int64_t i : order) sum += scores[static_cast<size_t>(i)];
    for (int64_t j = 0; j < choice.k; ++j) {
      const int64_t i = order[static_cast<size_t>(j)];
      verdict.equal("ids", ids[j], i);
      const double want = scores[static_cast<size_t>(i)] / (renormalize ? sum : 1.0) * kScale;
      verdict.near("weights", j, weights[j], want, 1e-5, 0);
    }
  }
}

void check_ties() {
  Verdict verdict("topk_softmax_row fp32: of equal numbers the first");
  constexpr int64_t n = 13, k = 5;
  Room<float> x(n), scratch(neon::scratch_room(1, n)), weights(k);
  Room<int32_t> ids(k);
  for (int64_t i = 0; i < n; ++i) x[i] = i % 2 ? 1.0f : -1.0f;
  neon::topk_softmax_row<float>(x.data(), n, k, false, scratch.data(), weights.data(), ids.data());
  for (int64_t j = 0; j < k; ++j) verdict.equal("ids", ids[j], 2 * j + 1);
}

int main() {
  check_ties();
  for_dtypes([](auto like) {
    for (const bool renormalize : {false, true}) {
      check_softmax<decltype(like)>(renormalize);
      check_grouped<decltype(like)>(renormalize);
    }
  });
  return exit_code();
}
