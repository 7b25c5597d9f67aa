// Gates over one run of two tensors: how many elements are outside a bound, or how errors are spread.
// `a` is the actual side, `e` the expected one. Bounds and relative differences are rounded as torch
// rounds them, one operation at a time, so that the engine in torch operations counts the same.

#include "optest/pair.inl"

// ---- masks ----------------------------------------------------------------------------------------

// Which lanes; a register of its own kind where the machine has one.
#if defined(OPTEST_ISA_AVX512)
typedef __mmask16 M;
OPTEST_INLINE M above(F x, F y) {
  return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_GT_OQ);
}
OPTEST_INLINE M reaches(F x, F y) {
  return _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_GE_OQ);
}
OPTEST_INLINE M exceeding(U x, uint32_t limit) {
  return _mm512_cmpgt_epi32_mask((__m512i)x, _mm512_set1_epi32(static_cast<int>(limit)));
}
OPTEST_INLINE M nonzero(U x) { return _mm512_test_epi32_mask((__m512i)x, (__m512i)x); }
OPTEST_INLINE bool any(M mask) { return mask != 0; }
OPTEST_INLINE M without(M mask, M other) { return _kandn_mask16(other, mask); }
OPTEST_INLINE I count_in(I so_far, M mask) {
  return (I)_mm512_mask_sub_epi32((__m512i)so_far, mask, (__m512i)so_far, _mm512_set1_epi32(-1));
}
OPTEST_INLINE F pick(M mask, F yes, F no) {
  return (F)_mm512_mask_blend_ps(mask, (__m512)no, (__m512)yes);
}
OPTEST_INLINE F only(M mask, F value) { return (F)_mm512_maskz_mov_ps(mask, (__m512)value); }
#else
typedef I M;
OPTEST_INLINE M above(F x, F y) { return x > y; }
OPTEST_INLINE M reaches(F x, F y) { return x >= y; }
OPTEST_INLINE M exceeding(U x, uint32_t limit) { return exceeds(x, limit); }
OPTEST_INLINE M nonzero(U x) { return x != 0; }
OPTEST_INLINE bool any(M mask) {
#if defined(OPTEST_ISA_AVX2)
  return _mm256_movemask_ps((__m256)mask) != 0;
#elif defined(OPTEST_ISA_NEON)
  return vmaxvq_u32((uint32x4_t)mask) != 0;
#else
  int32_t seen = 0;
  for (int lane = 0; lane < kLanes; ++lane) seen |= mask[lane];
  return seen != 0;
#endif
}
OPTEST_INLINE M without(M mask, M other) { return mask & ~other; }
OPTEST_INLINE I count_in(I so_far, M mask) { return so_far - mask; }
OPTEST_INLINE F pick(M mask, F yes, F no) { return choose(mask, yes, no); }
OPTEST_INLINE F only(M mask, F value) { return (F)((U)value & (U)mask); }
#endif

OPTEST_INLINE M both(M x, M y) { return static_cast<M>(x & y); }
OPTEST_INLINE M either(M x, M y) { return static_cast<M>(x | y); }
OPTEST_INLINE F drop(M mask, F value) { return pick(mask, F{}, value); }

OPTEST_INLINE int64_t count_of(I lanes) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_reduce_add_epi32((__m512i)lanes);
#endif
  int64_t sum = 0;
  for (int lane = 0; lane < kLanes; ++lane) sum += lanes[lane];
  return sum;
}
OPTEST_INLINE int64_t lanes_in(M mask) { return count_of(count_in(I{}, mask)); }

OPTEST_INLINE U magnitude_bits(F value) { return (U)value & kAbs; }
OPTEST_INLINE F magnitude_of(F value) { return (F)magnitude_bits(value); }
OPTEST_INLINE M is_nan(F value) { return exceeding(magnitude_bits(value), kInf); }
OPTEST_INLINE M is_wild(F value) { return exceeding(magnitude_bits(value), kInf - 1); }
OPTEST_INLINE M is_infinite(F value) { return without(is_wild(value), is_nan(value)); }

// ---- memory ---------------------------------------------------------------------------------------

// Calls body(a, e, n, ahead) for stretches of adjacent values of a run, gathered where they are not
// adjacent; memory may be asked for what lies so many bytes ahead of them.
template <class T, class Body>
OPTEST_INLINE void stretches(const PairRun& run, const Body& body) {
  constexpr int64_t size = sizeof(T);
  const bool dense = run.a_step == size && run.b_step == size;
  const int64_t step = dense ? kRun : kBuffer;
  alignas(64) T a[kBuffer];
  alignas(64) T e[kBuffer];
  for (int64_t done = 0; done < run.n; done += step) {
    const int64_t n = run.n - done < step ? run.n - done : step;
    const char* pa = run.a + done * run.a_step;
    const char* pe = run.b + done * run.b_step;
    if (dense) {
      body(reinterpret_cast<const T*>(pa), reinterpret_cast<const T*>(pe), n,
           Ahead::of<T>(run, done + n));
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(a + i, pa + i * run.a_step, sizeof(T));
      std::memcpy(e + i, pe + i * run.b_step, sizeof(T));
    }
    body(a, e, n, Ahead{});
  }
}

// ---- elements outside a bound ---------------------------------------------------------------------

struct GateVectors {
  I bad{};
  I ignored{};
  U largest{};  // bits of |a - e|, which order as the values do; NaN or infinite where anything is
};

// |a - e| > atol + rtol * |e|; the worst is the largest |a - e|.
struct Allclose {
  F atol;
  F rtol;
  static constexpr uint32_t kUnusual = kInf;

  explicit Allclose(const GateBounds& bounds)
      : atol(splat(static_cast<float>(bounds.first))),
        rtol(splat(static_cast<float>(bounds.second))) {}

  OPTEST_INLINE void judge(F, F e, F difference, GateVectors* to) {
    to->bad = count_in(to->bad, above(difference, magnitude_of(e) * rtol + atol));
  }
  OPTEST_INLINE void judge_exactly(F a, F e, F difference, GateVectors* to) {
    judge(a, e, difference, to);
  }
  OPTEST_INLINE float worst(uint32_t largest) const { return fp32_of(largest); }
};

// |a - e| >= threshold, and also above it as a share of size = max(|a|, |e|, floor) + 1e-9; the worst
// is the largest such share.
struct RelativeDifference {
  F threshold;
  F floor;
  F nearly;  // a little below the threshold: a product tells where a division need not
  U worst_share{};
  static constexpr uint32_t kUnusual = kInf;

  explicit RelativeDifference(const GateBounds& bounds)
      : threshold(splat(static_cast<float>(bounds.first))),
        floor(splat(static_cast<float>(bounds.second))),
        nearly(threshold * 0.999999f) {}

  OPTEST_INLINE F size_of(F a, F e) const {
    const U magnitude = larger(magnitude_bits(a), magnitude_bits(e));
    return (F)larger(magnitude, (U)floor) + 1e-9f;
  }
  OPTEST_INLINE void judge(F a, F e, F difference, GateVectors* to) {
    const F size = size_of(a, e);
    const M maybe = both(reaches(difference, threshold), above(difference, size * nearly));
    if (any(maybe)) count(maybe, difference / size, to);
  }
  OPTEST_INLINE void judge_exactly(F a, F e, F difference, GateVectors* to) {
    count(reaches(difference, threshold), difference / size_of(a, e), to);
  }
  OPTEST_INLINE void count(M among, F share, GateVectors* to) {
    const M bad = both(among, above(share, threshold));
    to->bad = count_in(to->bad, bad);
    worst_share = larger(worst_share, (U)only(bad, share));
  }
  OPTEST_INLINE float worst(uint32_t) const {
    return any(nonzero(worst_share)) ? fp32_of(largest_of(worst_share)) : 0.0f;
  }
};

template <bool kIgnoreNan, class Rule>
OPTEST_INLINE void judge(F a, F e, Rule* rule, GateVectors* to) {
  if constexpr (kIgnoreNan) {
    const M nan = is_nan(e);
    to->ignored = count_in(to->ignored, nan);
    a = drop(nan, a);
    e = drop(nan, e);
  }
  const F difference = magnitude_of(a - e);
  to->largest = larger(to->largest, (U)difference);
  rule->judge(a, e, difference, to);
}

// Of short runs, adding lanes up takes as long as judging them: most have nothing to add.
OPTEST_INLINE double total_of(I lanes) {
  return any(nonzero((U)lanes)) ? static_cast<double>(count_of(lanes)) : 0.0;
}

template <class Rule>
OPTEST_INLINE void add_to(GateRow* row, const GateVectors& found, const Rule& rule,
                          uint32_t largest) {
  row->bad += total_of(found.bad);
  row->ignored += total_of(found.ignored);
  const double worst = rule.worst(largest);
  if (worst > row->worst) row->worst = worst;
}

// Where anything may be NaN, infinite or huge: the former are counted, and judged as equal zeros.
template <class Rule, class T>
OPTEST_NOINLINE static void judge_unusual(const T* pa, const T* pe, int64_t n,
                                          const GateBounds& bounds, GateRow* row) {
  Rule rule(bounds);
  GateVectors found;
  I nan_a{}, nan_e{}, inf_a{}, inf_e{};
  for (int64_t i = 0; i < n; i += kLanes) {
    const bool whole = i + kLanes <= n;
    F a = whole ? load(pa + i) : load_part(pa + i, n - i);
    F e = whole ? load(pe + i) : load_part(pe + i, n - i);
    if (bounds.ignore_nan) {
      const M nan = is_nan(e);
      found.ignored = count_in(found.ignored, nan);
      a = drop(nan, a);
      e = drop(nan, e);
    }
    nan_a = count_in(nan_a, is_nan(a));
    nan_e = count_in(nan_e, is_nan(e));
    inf_a = count_in(inf_a, is_infinite(a));
    inf_e = count_in(inf_e, is_infinite(e));
    const M wild = either(is_wild(a), is_wild(e));
    a = drop(wild, a);
    e = drop(wild, e);
    const F difference = magnitude_of(a - e);
    found.largest = larger(found.largest, (U)difference);
    rule.judge_exactly(a, e, difference, &found);
  }
  row->nan_actual += static_cast<double>(count_of(nan_a));
  row->nan_expected += static_cast<double>(count_of(nan_e));
  row->inf_actual += static_cast<double>(count_of(inf_a));
  row->inf_expected += static_cast<double>(count_of(inf_e));
  add_to(row, found, rule, largest_of(found.largest));
}

template <bool kIgnoreNan, class Rule, class T>
OPTEST_INLINE void judge_run(const T* pa, const T* pe, int64_t n, Ahead ahead,
                             const GateBounds& bounds, GateRow* row) {
  Rule rule(bounds);
  GateVectors found;
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    ask_for<kPair * sizeof(T)>(pa + i, pe + i, ahead);
    const Pair a = load_pair(pa + i);
    const Pair e = load_pair(pe + i);
    judge<kIgnoreNan>(a.a, e.a, &rule, &found);
    judge<kIgnoreNan>(a.b, e.b, &rule, &found);
  }
  if (i < n) {  // padded with zeros on both sides, which no rule refuses
    const Pair a = load_pair_part(pa + i, n - i);
    const Pair e = load_pair_part(pe + i, n - i);
    judge<kIgnoreNan>(a.a, e.a, &rule, &found);
    judge<kIgnoreNan>(a.b, e.b, &rule, &found);
  }
  const uint32_t largest = largest_of(found.largest);
  if (largest >= Rule::kUnusual) {
    judge_unusual<Rule>(pa, pe, n, bounds, row);
  } else {
    add_to(row, found, rule, largest);
  }
}

template <class Rule, class T>
OPTEST_INLINE void gate_run(const PairRun& run, const GateBounds& bounds, GateRow* row) {
  stretches<T>(run, [&](const T* a, const T* e, int64_t n, Ahead ahead) OPTEST_LAMBDA {
    if (bounds.ignore_nan) {
      judge_run<true, Rule>(a, e, n, ahead, bounds, row);
    } else {
      judge_run<false, Rule>(a, e, n, ahead, bounds, row);
    }
  });
}

template <class T>
static void allclose_run(const PairRun& run, const GateBounds& bounds, GateRow* row) {
  gate_run<Allclose, T>(run, bounds, row);
}

template <class T>
static void relative_run(const PairRun& run, const GateBounds& bounds, GateRow* row) {
  gate_run<RelativeDifference, T>(run, bounds, row);
}

// Whether no bit differs, asking memory on the way for what lies `ahead`.
template <class T>
OPTEST_INLINE bool same_bits(const T* a, const T* e, int64_t n, Ahead ahead) {
  constexpr int kEach = static_cast<int>(sizeof(U) / sizeof(T));
  U apart{};
  int64_t i = 0;
  for (; i + kEach <= n; i += kEach) {
    ask_for<sizeof(U)>(a + i, e + i, ahead);
    apart |= load_raw<U>(a + i) ^ load_raw<U>(e + i);
  }
  for (; i < n; ++i) apart[0] |= a[i] != e[i];
  return !any(nonzero(apart));
}

// Elements whose bits differ; T, a signed integer, stands for any dtype of its size. Most are the same.
template <class T>
static void unequal_run(const PairRun& run, const GateBounds&, GateRow* row) {
  constexpr int kEach = static_cast<int>(sizeof(U) / sizeof(T));
  typedef T V __attribute__((vector_size(sizeof(U))));
  constexpr int kMost = 64;  // a lane of 8 bits counts as far
  stretches<T>(run, [&](const T* a, const T* e, int64_t n, Ahead ahead) OPTEST_LAMBDA {
    if (same_bits(a, e, n, ahead)) return;
    int64_t unequal = 0;
    int64_t i = 0;
    while (i + kEach <= n) {
      V lanes{};
      for (int k = 0; k < kMost && i + kEach <= n; ++k, i += kEach) {
        lanes -= load_raw<V>(a + i) != load_raw<V>(e + i);
      }
      for (int lane = 0; lane < kEach; ++lane) unequal += lanes[lane];
    }
    for (; i < n; ++i) unequal += a[i] != e[i];
    row->changed += static_cast<double>(unequal);
  });
}

// ---- how errors are spread ------------------------------------------------------------------------

typedef float H __attribute__((vector_size(kLanes * 2)));
typedef double D __attribute__((vector_size(kLanes * 4)));

#if defined(OPTEST_ISA_AVX512)
OPTEST_INLINE D fma(D a, D b, D c) {
  return (D)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
OPTEST_INLINE D low_doubles(F value) {
  return (D)_mm512_cvtps_pd(_mm512_castps512_ps256((__m512)value));
}
OPTEST_INLINE D high_doubles(F value) {
  return (D)_mm512_cvtps_pd(_mm512_extractf32x8_ps((__m512)value, 1));
}
#elif defined(OPTEST_ISA_AVX2)
OPTEST_INLINE D fma(D a, D b, D c) {
  return (D)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
OPTEST_INLINE D low_doubles(F value) {
  return (D)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)value));
}
OPTEST_INLINE D high_doubles(F value) {
  return (D)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)value, 1));
}
#else
OPTEST_INLINE D fma(D a, D b, D c) { return a * b + c; }
OPTEST_INLINE D low_doubles(F value) { return __builtin_convertvector(load_raw<H>(&value), D); }
OPTEST_INLINE D high_doubles(F value) {
  return __builtin_convertvector(load_raw<H>(reinterpret_cast<const char*>(&value) + sizeof(H)), D);
}
#endif
OPTEST_INLINE double sum_of_doubles(D value) {
  double sum = 0;
  for (int lane = 0; lane < kLanes / 2; ++lane) sum += value[lane];
  return sum;
}

struct SumVectors {
  D difference{};
  D expected{};
  D actual{};
  D product{};
  D magnitude{};

  // e is not negative.
  OPTEST_INLINE void add(D a, D e) {
    const D apart = a - e;
    difference = fma(apart, apart, difference);
    expected = fma(e, e, expected);
    actual = fma(a, a, actual);
    product = fma(a, e, product);
    magnitude += e;
  }
};

struct AboveVectors {
  I count[kMostThresholds] = {};
  U worst[kMostThresholds] = {};
  U worst_low[kMostThresholds] = {};  // |a - e| where the floor is what it is divided by
};

// Counts vectors of values by the upper halves of their fp32 patterns: a bin for each bf16 number. Each
// vector is counted when the next one comes. A machine holds a count back until it knows the place of
// every earlier one, since both may have the same: counted at once, each vector would wait for the
// division of the one before it. Neighbouring lanes count in copies of their own, so that equal values
// need not wait for each other.
class Tally {
 public:
  explicit Tally(uint32_t* bins) : bins_(bins) {}

  OPTEST_INLINE void put(F values) {
    constexpr int kShift = 16 - kCopyBits;
    finish();
    store_raw(at_, (U)values >> kShift & ~(kCopies - 1));
    asm("" : "+m"(at_));  // by way of memory: to take a vector apart in registers takes far longer
    holds_ = true;
  }
  OPTEST_INLINE void finish() {
    if (!holds_) return;
#pragma GCC unroll 16
    for (int lane = 0; lane < kLanes; ++lane) ++bins_[at_[lane] + (lane & (kCopies - 1))];
  }

 private:
  alignas(64) uint32_t at_[kLanes];
  bool holds_ = false;
  uint32_t* const bins_;
};

// relative is |a - e| / (max(|a|, |e|, 1e-6) + 1e-9): what a threshold asks for where no floor is.
OPTEST_INLINE void count_above(F difference, F magnitude, F relative,
                               const SpreadThresholds& thresholds, AboveVectors* to) {
  for (int64_t t = 0; t < thresholds.n; ++t) {
    // Levels ascend. A look at each would often guess wrong, which costs more than it saves.
    if (t % 8 == 7 && !any(reaches(difference, splat(thresholds.level[t])))) return;
    const M over = both(reaches(difference, splat(thresholds.least[t])),
                        above(relative, splat(thresholds.level[t])));
    to->count[t] = count_in(to->count[t], over);
    if (t >= thresholds.floored) {
      to->worst[t] = larger(to->worst[t], (U)only(over, relative));
      continue;
    }
    const M low = both(over, above(splat(thresholds.floor[t]), magnitude));
    to->worst[t] = larger(to->worst[t], (U)only(without(over, low), relative));
    to->worst_low[t] = larger(to->worst_low[t], (U)only(low, difference));
  }
}

OPTEST_NOINLINE static void count_wild(F a, F e, SpreadPart* part) {
  part->nan_actual += lanes_in(is_nan(a));
  part->nan_expected += lanes_in(is_nan(e));
  part->inf_actual += lanes_in(is_infinite(a));
  part->inf_expected += lanes_in(is_infinite(e));
  part->left_out += lanes_in(either(is_wild(a), is_wild(e)));
}

struct SpreadVectors {
  SumVectors sums;
  AboveVectors above;
  U max_abs{};
  U max_relative{};
  U max_expected{};
  Tally expected;
  Tally absolute;
  Tally relative;

  explicit SpreadVectors(const SpreadPart& part)
      : expected(part.expected), absolute(part.absolute), relative(part.relative) {}

  OPTEST_INLINE void add(F a, F e, const SpreadThresholds& thresholds, SpreadPart* part) {
    const M wild = either(is_wild(a), is_wild(e));
    if (any(wild)) {
      count_wild(a, e, part);
      a = drop(wild, a);
      e = drop(wild, e);
    }
    a = (F)((U)a ^ ((U)e & ~kAbs));  // both signs change where e is negative: nothing here tells
    e = magnitude_of(e);
    sums.add(low_doubles(a), low_doubles(e));
    sums.add(high_doubles(a), high_doubles(e));
    max_expected = larger(max_expected, (U)e);
    expected.put(e);
    const F difference = magnitude_of(a - e);
    if (!any(nonzero((U)difference))) {
      part->equal += kLanes;
      return;
    }
    const F magnitude = (F)larger(magnitude_bits(a), (U)e);
    const F share = difference / ((F)larger((U)magnitude, (U)splat(1e-6f)) + 1e-9f);
    max_abs = larger(max_abs, (U)difference);
    max_relative = larger(max_relative, (U)share);
    absolute.put(difference);
    relative.put(share);
    count_above(difference, magnitude, share, thresholds, &above);
  }
};

OPTEST_INLINE void keep_max(float* largest, float value) {
  if (value > *largest) *largest = value;
}

OPTEST_NOINLINE static void add_above(const AboveVectors& found, const SpreadThresholds& thresholds,
                                      SpreadPart* part) {
  for (int64_t t = 0; t < thresholds.n; ++t) {
    part->above[t] += count_of(found.count[t]);
    const float low = fp32_of(largest_of(found.worst_low[t])) / (thresholds.floor[t] + 1e-9f);
    keep_max(part->worst + t, fp32_of(largest_of(found.worst[t])));
    keep_max(part->worst + t, low);
  }
}

template <class T>
static void spread_run(const PairRun& run, const SpreadThresholds& thresholds, SpreadPart* part) {
  SpreadVectors found(*part);
  stretches<T>(run, [&](const T* pa, const T* pe, int64_t n, Ahead ahead) OPTEST_LAMBDA {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      ask_for<kLanes * sizeof(T)>(pa + i, pe + i, ahead);
      found.add(load(pa + i), load(pe + i), thresholds, part);
    }
    if (i < n) {
      const F a = load_part(pa + i, n - i);
      found.add(a, load_part(pe + i, n - i), thresholds, part);
      part->left_out += kLanes - (n - i);
      part->padded += kLanes - (n - i);
    }
  });
  found.expected.finish();
  found.absolute.finish();
  found.relative.finish();
  add_above(found.above, thresholds, part);
  part->sum_difference += sum_of_doubles(found.sums.difference);
  part->sum_expected += sum_of_doubles(found.sums.expected);
  part->sum_actual += sum_of_doubles(found.sums.actual);
  part->sum_product += sum_of_doubles(found.sums.product);
  part->sum_magnitude += sum_of_doubles(found.sums.magnitude);
  keep_max(&part->max_abs, fp32_of(largest_of(found.max_abs)));
  keep_max(&part->max_relative, fp32_of(largest_of(found.max_relative)));
  keep_max(&part->max_expected, fp32_of(largest_of(found.max_expected)));
}
