// Draws a token from one row of logits. The three limits keep a beginning of the ranking by logits, so
// that the best tokens are found in growing numbers until one of the limits ends among them.

#include "topk_kernels.inl"

// e^(x - largest), and 0 for what is too small to be drawn, -infinity too.
OPTEST_INLINE F weight_of(F x, float largest) {
  const F below = x - largest;
  return choose(below > -87.0f, exponential<float>(below), F{});
}

template <class T>
OPTEST_INLINE F weights_at(const T* x, int64_t lanes, float largest) {
  return first_lanes(weight_of(load_lanes(x, lanes), largest), lanes);
}

// Asks for what follows a row's vector i, every second time since that is for two.
template <class T>
OPTEST_INLINE void ask_ahead(const T* x, int64_t i) {
  if (i % kPair == 0) ask_for_lines<4>(x + i);
}

template <class T>
float largest_logit(const T* x, int64_t n) {
  I best = I{} + kTaken;
  each_vector(n, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
    ask_ahead(x, i);
    const I keys = first_keys(key_of(load_lanes(x + i, lanes)), lanes);
    best = keys > best ? keys : best;
  });
  return value_of(largest_key(best));
}

constexpr int64_t kRun = 64 * kLanes;  // of tokens that are summed together

// Sums of the weights that are at least `least`, run by run, and of all of them; sums of vectors are
// short, so that none loses much.
template <class T>
double sum_of_weights(const T* x, int64_t n, float largest, float least, std::vector<double>& runs) {
  runs.clear();
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    F sum{};
    each_vector(n - begin < kRun ? n - begin : kRun, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      const F weight = weights_at(x + begin + i, lanes, largest);
      sum += choose(weight >= least, weight, F{});
    });
    runs.push_back(static_cast<double>(sum_of(sum)));
    total += runs.back();
  }
  return total;
}

// The first of n tokens at which the sum of the weights that are at least `least` exceeds `target`, or
// the last of such a weight.
template <class T>
int64_t token_of_run(const T* x, int64_t n, float largest, float least, double target) {
  double sum = 0.0;
  int64_t last = 0;
  for (int64_t i = 0; i < n; i += kLanes) {
    const int64_t lanes = n - i < kLanes ? n - i : kLanes;
    const F weight = weights_at(x + i, lanes, largest);
    const F counted = choose(weight >= least, weight, F{});
    for (int64_t lane = 0; lane < lanes; ++lane) {
      if (counted[lane] == 0.0f) continue;
      sum += static_cast<double>(counted[lane]);
      last = i + lane;
      if (sum > target) return last;
    }
  }
  return last;
}

// The same of a whole row by the sums of its runs.
template <class T>
int64_t token_at(const T* x, int64_t n, float largest, float least, double target,
                 const std::vector<double>& runs) {
  double before = 0.0;
  size_t run = 0;
  double before_run = 0.0;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (runs[r] == 0.0) continue;
    run = r;
    before_run = before;
    before += runs[r];
    if (before > target) break;
  }
  const int64_t begin = static_cast<int64_t>(run) * kRun;
  const int64_t some = n - begin < kRun ? n - begin : kRun;
  return begin + token_of_run(x + begin, some, largest, least, target - before_run);
}

// The best k tokens by rank, with their weights.
template <class T>
void rank_best(const T* x, int64_t n, int64_t k, Scratch& scratch) {
  scratch.kept.resize(static_cast<size_t>(best_room(k)));
  scratch.weights.resize(static_cast<size_t>(k));
  uint64_t* const kept = scratch.kept.data();
  keep_best(x, n, k, kept);
  std::sort(kept, kept + k, std::greater<uint64_t>());
  float* const w = scratch.weights.data();
  for (int64_t j = 0; j < k; ++j) {
    w[j] = value_of(key_of_ranked(kept[j]));
  }
  const float largest = w[0];
  each_vector(k, [&](int64_t lanes, int64_t j) OPTEST_LAMBDA {
    const F weight = weights_at(w + j, lanes, largest);
    std::memcpy(w + j, &weight, static_cast<size_t>(lanes) * sizeof(float));
  });
}

// How many of k ranked weights the limits keep; `target` is the sum that top_p asks for.
inline int64_t kept_of(const float* weights, int64_t k, double target, float min_p) {
  double sum = 0.0;
  for (int64_t j = 0; j < k; ++j) {
    if (j > 0 && (sum >= target || weights[j] < min_p)) return j;
    sum += static_cast<double>(weights[j]);
  }
  return k;
}

inline double sum_of_ranked(const float* weights, int64_t k) {
  double sum = 0.0;
  for (int64_t j = 0; j < k; ++j) sum += static_cast<double>(weights[j]);
  return sum;
}

// Draws among the first `count` of the ranking, in the order of the vocabulary.
inline int64_t draw(Scratch& scratch, int64_t count, double uniform) {
  uint64_t* const kept = scratch.kept.data();
  for (int64_t j = 0; j < count; ++j) {
    uint32_t bits;
    std::memcpy(&bits, &scratch.weights[static_cast<size_t>(j)], sizeof bits);
    kept[j] = static_cast<uint64_t>(~static_cast<uint32_t>(kept[j])) << 32 | bits;
  }
  const double target = uniform * sum_of_ranked(scratch.weights.data(), count);
  std::sort(kept, kept + count);
  double sum = 0.0;
  for (int64_t j = 0; j < count; ++j) {
    const uint32_t bits = static_cast<uint32_t>(kept[j]);
    float weight;
    std::memcpy(&weight, &bits, sizeof weight);
    sum += static_cast<double>(weight);
    if (sum > target) return static_cast<int64_t>(kept[j] >> 32);
  }
  return static_cast<int64_t>(kept[count - 1] >> 32);
}

// The token that is drawn from n >= 1 logits.
template <class T>
int64_t sample_row(const void* logits, int64_t n, const Limits& limits, Scratch& scratch) {
  const T* const x = static_cast<const T*>(logits);
  const bool all = limits.top_k <= 0 || limits.top_k >= n;
  if (!all) {
    rank_best(x, n, limits.top_k, scratch);
    const double total = sum_of_ranked(scratch.weights.data(), limits.top_k);
    const double target = limits.top_p >= 1.0 ? INFINITY : limits.top_p * total;
    const int64_t kept = kept_of(scratch.weights.data(), limits.top_k, target, limits.min_p);
    return draw(scratch, kept, limits.uniform);
  }
  const float largest = largest_logit(x, n);
  if (limits.top_p >= 1.0) {
    const double total = sum_of_weights(x, n, largest, limits.min_p, scratch.runs);
    return token_at(x, n, largest, limits.min_p, limits.uniform * total, scratch.runs);
  }
  const double target = limits.top_p * sum_of_weights(x, n, largest, 0.0f, scratch.runs);
  for (int64_t k = n < 256 ? n : 256;; k = n < 8 * k ? n : 8 * k) {
    rank_best(x, n, k, scratch);
    const int64_t kept = kept_of(scratch.weights.data(), k, target, limits.min_p);
    // All k of them may be too few, unless the last one has brought the sum.
    if (kept < k || k == n) return draw(scratch, kept, limits.uniform);
  }
}
