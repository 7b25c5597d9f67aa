// Draws a token from one row of logits. The three limits keep a beginning of the ranking by logits: what may
// be in it is picked, in the order of the vocabulary, and what turns out not to be weighs nothing.

#include "topk_kernels.inl"

// e^x for x up to kFarAbove to 2e-7 of it, and 6e-8 for each 1 that x is off 0; 0 for what is too small to be
// drawn, -infinity too.
OPTEST_INLINE F weight_of(F x) {
#if defined(OPTEST_ISA_AVX512)
  // Exact for 1.
  static constexpr float kOfFraction[] = {1.0f,          0.693151295f,  0.240164444f,
                                          0.0557999127f, 0.00901702978f, 0.00186713017f};
  const __mmask16 counts = _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(-87.0f), _CMP_GT_OQ);
  return power_of_two(x * 1.44269504f, kOfFraction, counts);
#else
  return choose(x > -87.0f, exponential<float>(x), F{});
#endif
}

OPTEST_INLINE F weights_of(F logits, int64_t lanes, float largest) {
  return first_lanes(weight_of(logits - largest), lanes);
}
template <class T>
OPTEST_INLINE F weights_at(const T* x, int64_t lanes, float largest) {
  return weights_of(load_lanes(x, lanes), lanes, largest);
}

// The larger ones, in the lanes that are there.
OPTEST_INLINE F with_first_lanes(F best, F some, int64_t lanes) {
  const F both = at_least(some, best);
  return lanes < kLanes ? choose(lane_numbers() < static_cast<int32_t>(lanes), both, best) : both;
}

template <class T, bool kFromMemory>
float largest_logit(const T* x, int64_t n) {
  constexpr int64_t step = 2 * kPair;
  F best[4];
  for (F& each : best) each = splat(-INFINITY);
  int64_t i = 0;
  for (; i + step <= n; i += step) {
    if constexpr (kFromMemory) {
      ask_for_stream<4>(x + i);
      ask_for_stream<4>(x + i + kPair);
    }
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) best[v] = at_least(load(x + i + v * kLanes), best[v]);
  }
  for (; i < n; i += kLanes) {
    const int64_t lanes = n - i < kLanes ? n - i : kLanes;
    best[0] = with_first_lanes(best[0], load_lanes(x + i, lanes), lanes);
  }
  const F both = at_least(at_least(best[0], best[1]), at_least(best[2], best[3]));
  return value_of(largest_key(key_of(both)));
}

// Weights are summed in runs of so many tokens; sums of vectors are short, so that none loses much.
constexpr int64_t kRun = 64 * kLanes;

inline int64_t run_length(int64_t n, int64_t begin) { return n - begin < kRun ? n - begin : kRun; }

// Sums of n weights run by run, and of all of them: weights(lanes, i) are those from i on.
template <class Weights>
double sum_of_weights(const Weights& weights, int64_t n, std::vector<double>& runs) {
  runs.clear();
  double total = 0.0;
  for (int64_t begin = 0; begin < n; begin += kRun) {
    F sum{};
    each_vector(run_length(n, begin), [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      sum += weights(lanes, begin + i);
    });
    runs.push_back(static_cast<double>(sum_of(sum)));
    total += runs.back();
  }
  return total;
}

// What all logits are above whose weight is `least`, by a little.
inline float limit_of(float largest, double least) {
  // Rounding of the largest, of the difference to it and of its exponential.
  const double slack = 1e-5 + 4e-7 * std::fabs(static_cast<double>(largest));
  const double limit = static_cast<double>(largest) + std::log(least) - slack;
  return limit > -3e38 ? static_cast<float>(limit) : no_threshold();
}

// Vectors of a row that hold something to be picked, and which of their lanes; to note one takes no branch.
struct Noted {
  uint64_t* vectors = nullptr;
  int64_t count = 0;

  Noted() = default;
  // Of a row of n. What is no vector to be noted is written too, behind the others.
  Noted(Scratch* scratch, int64_t n)
      : vectors(scratch->vectors.provide(static_cast<size_t>(n / kLanes + 2))) {}

  OPTEST_INLINE void note(int64_t i, uint32_t lanes) {
    vectors[count] = static_cast<uint64_t>(i) << 32 | lanes;
    count += lanes != 0;
  }

  template <class T>
  Picked of(const T* x, int64_t n, PickedRoom* room) const {
    Picked all(room, count * kLanes);
    Picked picked = all;  // a copy stays in registers
    for (int64_t v = 0; v < count; ++v) {
      const auto i = static_cast<int64_t>(vectors[v] >> 32);
      const F some = load_lanes(x + i, n - i < kLanes ? n - i : kLanes);
      picked.add(some, i, static_cast<uint32_t>(vectors[v]));
    }
    all.count = picked.count;
    return all;
  }
};

// The logits above a limit.
template <class T>
Picked picked_above(const T* x, int64_t n, float limit, Scratch* scratch) {
  Noted noted(scratch, n);
  constexpr int64_t step = 4 * kLanes;
  int64_t begin = 0;
  for (; begin + step <= n; begin += step) {
    uint32_t above[4];
#pragma GCC unroll 4
    for (int v = 0; v < 4; ++v) above[v] = lanes_above(load(x + begin + v * kLanes), limit);
    if ((above[0] | above[1] | above[2] | above[3]) == 0) continue;
    for (int v = 0; v < 4; ++v) noted.note(begin + v * kLanes, above[v]);
  }
  each_vector(n - begin, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
    const F some = load_lanes(x + begin + i, lanes);
    noted.note(begin + i, lanes_above(some, limit) & lanes_up_to(lanes));
  });
  return noted.of(x, n, &scratch->picked);
}

// The largest of a row and the sum of all weights.
struct Weighed {
  float largest;
  double total;
};

// How much larger than all before a logit may be, for its run to be weighed without another look.
constexpr float kFarAbove = 8.0f;

// Reads a row once: a run is weighed against the largest that came before it, or in it where that is the first
// or far above, and the sums, which stay in scratch->runs, are brought to one scale. Notes what weighs at least
// `least`, and more.
template <bool kNotes, class T>
Weighed weighed(const T* x, int64_t n, double least, Noted* noted, Scratch* scratch) {
  std::vector<double>& runs = scratch->runs;
  std::vector<float>& scales = scratch->scales;
  runs.clear();
  scales.clear();
  float largest = -INFINITY;
  Noted now = kNotes ? *noted : Noted{};  // a copy stays in registers
  for (int64_t begin = 0; begin < n; begin += kRun) {
    const T* const run = x + begin;
    const int64_t length = run_length(n, begin);
    const int64_t noted_before = now.count;
    F sum, best;
    float largest_of_run =
        largest == -INFINITY ? largest_logit<T, false>(run, length) : -INFINITY;
    do {
      if (largest_of_run > largest) largest = largest_of_run;
      const float limit = kNotes ? limit_of(largest, least) : 0.0f;
      now.count = noted_before;
      sum = F{};
      best = splat(-INFINITY);
      each_vector(length, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
        if (i % kPair == 0) ask_for_stream<4>(run + i);
        const F some = load_lanes(run + i, lanes);
        if (kNotes) now.note(begin + i, lanes_above(some, limit) & lanes_up_to(lanes));
        best = with_first_lanes(best, some, lanes);
        sum += weights_of(some, lanes, largest);
      });
      largest_of_run = value_of(largest_key(key_of(best)));
    } while (largest_of_run > largest + kFarAbove);
    runs.push_back(static_cast<double>(sum_of(sum)));
    scales.push_back(largest);
    if (largest_of_run > largest) largest = largest_of_run;
  }
  if (kNotes) *noted = now;
  double total = 0.0;
  for (size_t r = 0; r < runs.size(); ++r) {
    if (scales[r] != largest) runs[r] *= std::exp(static_cast<double>(scales[r]) - largest);
    total += runs[r];
  }
  return {largest, total};
}

// The first of the places from `begin` to `end` at which the sum of the weights exceeds `target`, or the
// last of a weight that is not 0.
template <class Weights>
int64_t place_in_run(const Weights& weights, int64_t begin, int64_t end, double target) {
  double sum = 0.0;
  int64_t last = begin;
  for (int64_t i = begin; i < end; i += kLanes) {
    const int64_t lanes = end - i < kLanes ? end - i : kLanes;
    const F some = weights(lanes, i);
    for (int64_t lane = 0; lane < lanes; ++lane) {
      if (some[lane] == 0.0f) continue;
      sum += static_cast<double>(some[lane]);
      last = i + lane;
      if (sum > target) return last;
    }
  }
  return last;
}

// The same of n places by the sums of their runs.
template <class Weights>
int64_t place_of(const Weights& weights, int64_t n, double target, const std::vector<double>& runs) {
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
  return place_in_run(weights, begin, begin + run_length(n, begin), target - before_run);
}

// Ends a ranking where the weights before it sum to `left`, behind the first element at the earliest.
struct ByWeight {
  float* weights;
  double left;
  double above = 0.0;
  int looked = 0;
  F sum{};

  OPTEST_INLINE void look(int64_t i, uint32_t lanes) {
    sum += only(load(weights + i), lanes);
    if (++looked % 64 == 0) flush();
  }
  OPTEST_INLINE void move(int64_t from, int64_t to, uint32_t lanes) {
    pack(weights + to, load(weights + from), lanes);
  }
  void flush() {
    above += static_cast<double>(sum_of(sum));
    sum = F{};
  }
  bool is_above() {
    flush();
    return above >= left;
  }
  void pass_over() { left -= above; }
  void begin() { above = 0.0; }
  float share(int64_t) const { return 0.5f; }  // how many weigh so much is not known
  bool find(const int32_t*, int64_t, Cut*) const { return false; }
  int64_t ties(int64_t n) const {  // of one key, and so of one weight
    int64_t kept = 1;
    for (double sum_of_kept = static_cast<double>(weights[0]); kept < n && sum_of_kept < left; ++kept) {
      sum_of_kept += static_cast<double>(weights[0]);
    }
    return kept;
  }
};

// Tokens of which some are drawn, with their weights.
struct Drawn {
  Picked picked;
  float* weights;
  float* some;

  // A weight is read and written with the vector that it is in.
  Drawn(const Picked& tokens, float largest, Scratch* scratch) : picked(tokens) {
    const auto room = static_cast<size_t>(picked.count + 2 * kLanes);
    weights = scratch->weights.provide(room);
    some = scratch->some.provide(room);
    each_vector(picked.count, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      store_raw(weights + i, weights_at(picked.values + i, lanes, largest));
    });
  }

  // Weights, as sum_of_weights and place_of ask for them.
  OPTEST_INLINE F operator()(int64_t lanes, int64_t i) const {
    return first_lanes(load(weights + i), lanes);
  }

  double sum(std::vector<double>& runs) const {
    return sum_of_weights(*this, picked.count, runs);
  }

  // Leaves the fewest of the best that sum to `target`; what is not among them weighs nothing.
  OPTEST_NOINLINE void keep_heaviest(double target) {
    std::memcpy(some, weights, static_cast<size_t>(picked.count) * sizeof(float));
    Left left{cut_of(picked.keys(), picked.count, ByWeight{some, target})};
    each_vector(picked.count, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      const F weight = load(weights + i);
      store_raw(weights + i, only(weight, left.of(key_of(load(picked.values + i)), lanes)));
    });
  }

  // Leaves what weighs at least so much; the largest weight is 1.
  void keep_from(float least) {
    each_vector(picked.count, [&](int64_t, int64_t i) OPTEST_LAMBDA {
      const F weight = load(weights + i);
      store_raw(weights + i, choose(weight >= least, weight, F{}));
    });
  }

  int64_t token(double uniform, std::vector<double>& runs) const {
    const double target = uniform * sum(runs);
    return picked.columns[place_of(*this, picked.count, target, runs)];
  }
};

// A weight such that what weighs less is not among the fewest that sum to top_p of all: n of them sum to
// less than the rest. 0 where rounding might be more than that.
inline double least_of_nucleus(double top_p, double total, int64_t n) {
  const double rest = 1.0 - top_p;
  return rest < 1e-4 ? 0.0 : 0.9 * rest * total / static_cast<double>(n);
}

// The fewest of the best that sum to top_p of all.
template <class T>
Drawn nucleus(const T* x, int64_t n, double top_p, Scratch* scratch) {
  constexpr double few = 1.0 / 4096;  // mostly enough, and mostly met by few
  Noted noted(scratch, n);
  const Weighed row = weighed<true>(x, n, few, &noted, scratch);
  const double target = top_p * row.total;
  Drawn drawn(noted.of(x, n, &scratch->picked), row.largest, scratch);
  drawn.keep_from(static_cast<float>(few));
  if (drawn.sum(scratch->runs) < target) {
    const float limit = limit_of(row.largest, least_of_nucleus(top_p, row.total, n));
    drawn = Drawn(picked_above(x, n, limit, scratch), row.largest, scratch);
  }
  drawn.keep_heaviest(target);
  return drawn;
}

// The token that is drawn from n >= 1 logits.
template <class T>
int64_t sample_row(const void* logits, int64_t n, const Limits& limits, Scratch* scratch) {
  const T* const x = static_cast<const T*>(logits);
  const float min_p = limits.min_p < 1.0f ? limits.min_p : 1.0f;
  std::vector<double>& runs = scratch->runs;
  if (limits.top_k > 0 && limits.top_k < n) {
    const Picked best = best_of(x, n, limits.top_k, &scratch->picked);
    Drawn drawn(best, largest_logit<float, false>(best.values, best.count), scratch);
    if (limits.top_p < 1.0) drawn.keep_heaviest(limits.top_p * drawn.sum(runs));
    drawn.keep_from(min_p);
    return drawn.token(limits.uniform, runs);
  }
  if (limits.top_p >= 1.0 && min_p > 0.0f) {
    const float largest = largest_logit<T, true>(x, n);
    Drawn drawn(picked_above(x, n, limit_of(largest, min_p), scratch), largest, scratch);
    drawn.keep_from(min_p);
    return drawn.token(limits.uniform, runs);
  }
  if (limits.top_p >= 1.0) {
    const Weighed row = weighed<false>(x, n, 0.0, nullptr, scratch);
    const auto weights = [=](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      return weights_at(x + i, lanes, row.largest);
    };
    return place_of(weights, n, limits.uniform * row.total, runs);
  }
  Drawn drawn = nucleus(x, n, limits.top_p, scratch);
  drawn.keep_from(min_p);
  return drawn.token(limits.uniform, runs);
}
