// Gates over one run of two tensors: how many elements are outside a bound, or how errors are spread.
// `a` is the actual side, `e` the expected one. Bounds and relative differences are rounded as torch
// rounds them, one operation at a time, so that the engine in torch operations counts the same.

#include "optest/vec.inl"

// Values judged together: what is unusual among them is looked at again, while it is near.
constexpr int64_t kRun = 4096;
// What is taken from memory into a buffer at a time.
constexpr int64_t kBuffer = 1024;
// Bytes between what is judged and what is asked of memory.
constexpr int64_t kAhead = 4096;

OPTEST_INLINE float fp32_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

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

template <class T>
OPTEST_INLINE void ask_for(const T* from) {
  const char* at = reinterpret_cast<const char*>(from) + kAhead;
  for (size_t line = 0; line < kPair * sizeof(T); line += 64) __builtin_prefetch(at + line);
}

// Calls body(a, e, n) for stretches of adjacent values of a run, gathered where they are not adjacent.
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
      body(reinterpret_cast<const T*>(pa), reinterpret_cast<const T*>(pe), n);
      continue;
    }
    for (int64_t i = 0; i < n; ++i) {
      std::memcpy(a + i, pa + i * run.a_step, sizeof(T));
      std::memcpy(e + i, pe + i * run.b_step, sizeof(T));
    }
    body(a, e, n);
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
  OPTEST_INLINE double worst(const GateVectors& found) const {
    return fp32_of(largest_of(found.largest));
  }
};

// |a - e| >= threshold, and also above it as a share of size = max(|a|, |e|, floor) + 1e-9; the worst
// is the largest such share.
struct RelativeDifference {
  F threshold;
  F floor;
  F nearly;
  F surely;
  // Of the largest share so far. Shares are compared by products: a division takes longer than memory
  // does.
  F worst_difference{};
  F worst_size = splat(1.0f);
  static constexpr uint32_t kUnusual = 0x5d5e0b6bu;  // 1e18: products of two do not overflow

  explicit RelativeDifference(const GateBounds& bounds)
      : threshold(splat(static_cast<float>(bounds.first))),
        floor(splat(static_cast<float>(bounds.second))),
        nearly(threshold * 0.999999f),
        surely(threshold * 1.000001f) {}

  OPTEST_INLINE F size_of(F a, F e) const {
    const U magnitude = larger(magnitude_bits(a), magnitude_bits(e));
    return (F)larger(magnitude, (U)floor) + 1e-9f;
  }
  OPTEST_INLINE void judge(F a, F e, F difference, GateVectors* to) {
    const F size = size_of(a, e);
    const M maybe = both(reaches(difference, threshold), above(difference, size * nearly));
    if (!any(maybe)) return;
    M bad = both(maybe, above(difference, size * surely));
    const M unsure = without(maybe, bad);
    if (any(unsure)) bad = either(bad, both(unsure, above(difference / size, threshold)));
    to->bad = count_in(to->bad, bad);
    const M worse = both(bad, above(difference * worst_size, worst_difference * size));
    worst_difference = pick(worse, difference, worst_difference);
    worst_size = pick(worse, size, worst_size);
  }
  OPTEST_INLINE void judge_exactly(F a, F e, F difference, GateVectors* to) {
    const F share = difference / size_of(a, e);
    const M bad = both(reaches(difference, threshold), above(share, threshold));
    to->bad = count_in(to->bad, bad);
    const M worse = both(bad, above(share, worst_difference));  // worst_size stays 1
    worst_difference = pick(worse, share, worst_difference);
  }
  OPTEST_INLINE double worst(const GateVectors&) const {
    return fp32_of(largest_of((U)(worst_difference / worst_size)));
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

template <class Rule>
OPTEST_INLINE void add_to(GateRow* row, const GateVectors& found, const Rule& rule) {
  row->bad += static_cast<double>(count_of(found.bad));
  row->ignored += static_cast<double>(count_of(found.ignored));
  const double worst = rule.worst(found);
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
  add_to(row, found, rule);
}

template <bool kIgnoreNan, class Rule, class T>
OPTEST_INLINE void judge_run(const T* pa, const T* pe, int64_t n, const GateBounds& bounds,
                             GateRow* row) {
  Rule rule(bounds);
  GateVectors found;
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    ask_for(pa + i);
    ask_for(pe + i);
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
  if (largest_of(found.largest) >= Rule::kUnusual) {
    judge_unusual<Rule>(pa, pe, n, bounds, row);
  } else {
    add_to(row, found, rule);
  }
}

template <class Rule, class T>
OPTEST_INLINE void gate_run(const PairRun& run, const GateBounds& bounds, GateRow* row) {
  stretches<T>(run, [&](const T* a, const T* e, int64_t n) OPTEST_LAMBDA {
    if (bounds.ignore_nan) {
      judge_run<true, Rule>(a, e, n, bounds, row);
    } else {
      judge_run<false, Rule>(a, e, n, bounds, row);
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

// Elements whose bits differ; T, a signed integer, stands for any dtype of its size.
template <class T>
static void unequal_run(const PairRun& run, const GateBounds&, GateRow* row) {
  constexpr int kEach = static_cast<int>(sizeof(U) / sizeof(T));
  typedef T V __attribute__((vector_size(sizeof(U))));
  constexpr int kMost = 64;  // a lane of 8 bits counts as far
  stretches<T>(run, [&](const T* a, const T* e, int64_t n) OPTEST_LAMBDA {
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

OPTEST_INLINE D low_doubles(F value) { return __builtin_convertvector(load_raw<H>(&value), D); }
OPTEST_INLINE D high_doubles(F value) {
  return __builtin_convertvector(load_raw<H>(reinterpret_cast<const char*>(&value) + sizeof(H)), D);
}
OPTEST_INLINE double sum_of_doubles(D value) {
  double sum = 0;
  for (int lane = 0; lane < kLanes / 2; ++lane) sum += value[lane];
  return sum;
}

struct SpreadVectors {
  D difference{};
  D expected{};
  D actual{};
  D product{};
  D magnitude{};
  U max_abs{};
  U max_relative{};
  U max_expected{};

  OPTEST_INLINE void add(D a, D e) {
    const D apart = a - e;
    difference += apart * apart;
    expected += e * e;
    actual += a * a;
    product += a * e;
    magnitude += e < 0 ? -e : e;
  }
};

struct AboveVectors {
  I count[kMostThresholds] = {};
  U worst[kMostThresholds] = {};
};

// The upper half of a fp32 pattern: a bin for each bf16 number. Neighbouring lanes count in copies of
// their own, so that equal values need not wait for each other.
OPTEST_INLINE void put_in(uint32_t* bins, F values) {
  constexpr int kShift = 16 - kCopyBits;
  alignas(64) uint32_t at[kLanes];
  store_raw(at, (U)values >> kShift & ~(kCopies - 1));
  for (int lane = 0; lane < kLanes; ++lane) ++bins[at[lane] + (lane & (kCopies - 1))];
}

// relative is |a - e| / (max(|a|, |e|, 1e-6) + 1e-9): what a threshold asks for where no floor is.
OPTEST_INLINE void count_above(F difference, F magnitude, F relative,
                               const SpreadThresholds& thresholds, AboveVectors* to) {
  for (int64_t t = 0; t < thresholds.n; ++t) {
    const F level = splat(thresholds.level[t]);
    const M apart = reaches(difference, level);
    if (!any(apart)) return;  // levels ascend
    F share = relative;
    const F floor = splat(thresholds.floor[t]);
    const M low = both(apart, above(floor, magnitude));
    if (any(low)) share = pick(low, difference / (floor + 1e-9f), share);
    const M over = both(apart, above(share, level));
    to->count[t] = count_in(to->count[t], over);
    to->worst[t] = larger(to->worst[t], (U)only(over, share));
  }
}

OPTEST_NOINLINE static void count_wild(F a, F e, SpreadPart* part) {
  part->nan_actual += lanes_in(is_nan(a));
  part->nan_expected += lanes_in(is_nan(e));
  part->inf_actual += lanes_in(is_infinite(a));
  part->inf_expected += lanes_in(is_infinite(e));
  part->left_out += lanes_in(either(is_wild(a), is_wild(e)));
}

OPTEST_INLINE void spread(F a, F e, const SpreadThresholds& thresholds, SpreadVectors* to,
                          AboveVectors* above, SpreadPart* part) {
  const M wild = either(is_wild(a), is_wild(e));
  if (any(wild)) {
    count_wild(a, e, part);
    a = drop(wild, a);
    e = drop(wild, e);
  }
  to->add(low_doubles(a), low_doubles(e));
  to->add(high_doubles(a), high_doubles(e));
  const F expected = magnitude_of(e);
  to->max_expected = larger(to->max_expected, (U)expected);
  put_in(part->expected, expected);
  const F difference = magnitude_of(a - e);
  if (!any(nonzero((U)difference))) {
    part->equal += kLanes;
    return;
  }
  const F magnitude = (F)larger((U)a & kAbs, (U)expected);
  const F relative = difference / ((F)larger((U)magnitude, (U)splat(1e-6f)) + 1e-9f);
  to->max_abs = larger(to->max_abs, (U)difference);
  to->max_relative = larger(to->max_relative, (U)relative);
  put_in(part->absolute, difference);
  put_in(part->relative, relative);
  count_above(difference, magnitude, relative, thresholds, above);
}

OPTEST_INLINE void keep_max(float* largest, U bits) {
  const float value = fp32_of(largest_of(bits));
  if (value > *largest) *largest = value;
}

OPTEST_NOINLINE static void add_above(const AboveVectors& found, int64_t n, SpreadPart* part) {
  for (int64_t t = 0; t < n; ++t) {
    part->above[t] += count_of(found.count[t]);
    keep_max(part->worst + t, found.worst[t]);
  }
}

template <class T>
static void spread_run(const PairRun& run, const SpreadThresholds& thresholds, SpreadPart* part) {
  SpreadVectors found;
  AboveVectors above;
  stretches<T>(run, [&](const T* pa, const T* pe, int64_t n) OPTEST_LAMBDA {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      spread(load(pa + i), load(pe + i), thresholds, &found, &above, part);
    }
    if (i < n) {
      const F a = load_part(pa + i, n - i);
      spread(a, load_part(pe + i, n - i), thresholds, &found, &above, part);
      part->left_out += kLanes - (n - i);
      part->padded += kLanes - (n - i);
    }
  });
  add_above(above, thresholds.n, part);
  part->sum_difference += sum_of_doubles(found.difference);
  part->sum_expected += sum_of_doubles(found.expected);
  part->sum_actual += sum_of_doubles(found.actual);
  part->sum_product += sum_of_doubles(found.product);
  part->sum_magnitude += sum_of_doubles(found.magnitude);
  keep_max(&part->max_abs, found.max_abs);
  keep_max(&part->max_relative, found.max_relative);
  keep_max(&part->max_expected, found.max_expected);
}
