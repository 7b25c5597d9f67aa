// The walk over one run of two tensors: what mismatches, by how much, and how large it all is.
// The bound is rounded as torch does it, in a multiplication and an addition, so that every engine
// counts the same elements; sums may be fused.

#include "optest/pair.inl"

OPTEST_INLINE float widened(float value) { return value; }
OPTEST_INLINE double widened(double value) { return value; }
OPTEST_INLINE float widened(Bf16 value) {
  return fp32_of(uint32_t{value.bits} << 16);
}
OPTEST_INLINE float widened(Fp16 value) { return load_part(&value, 1)[0]; }

OPTEST_INLINE void keep_max(double* largest, double value) {
  if (value > *largest) *largest = value;
}

// ---- any values -----------------------------------------------------------------------------------

// NaN, Inf, sizes whose squares overflow or vanish in fp32; C is what T is compared in.
template <class C, class T>
OPTEST_NOINLINE static void judge_each(const T* pa, const T* pb, int64_t n,
                                       const CompareBounds& bounds, CompareRow* row) {
  const C rtol = static_cast<C>(bounds.rtol), atol = static_cast<C>(bounds.atol);
  for (int64_t i = 0; i < n; ++i) {
    const C a = widened(pa[i]), b = widened(pb[i]);
    const C magnitude = std::fabs(a);
    const bool finite_a = std::isfinite(a), finite_b = std::isfinite(b);
    if (finite_a) {
      row->sum_reference += static_cast<double>(magnitude) * magnitude;
      keep_max(&row->peak, magnitude);
    }
    if (!(finite_a && finite_b)) {
      const bool match = a == b || (bounds.equal_nan && std::isnan(a) && std::isnan(b));
      row->mismatched += !match;
      row->nonfinite += !match;
      row->nan_reference += std::isnan(a);
      row->nan_candidate += std::isnan(b);
      row->inf_reference += std::isinf(a);
      row->inf_candidate += std::isinf(b);
      continue;
    }
    const C difference = std::fabs(a - b);
    const C bound = magnitude * rtol + atol;
    row->sum_difference += static_cast<double>(difference) * difference;
    keep_max(&row->max_abs, difference);
    if (difference <= bound) continue;
    row->mismatched += 1;
    if (difference > bound * C{16}) {
      const double excess = difference - magnitude * C{0.5};
      keep_max(&row->margin, excess);
      row->gross += excess > bounds.gross_floor;
    }
  }
}

// ---- finite values of ordinary size ---------------------------------------------------------------

struct RunSums {
  double sum_reference;
  double sum_difference;
  float max_abs;
  float peak;
  int64_t mismatched;

  // Nothing is NaN or Inf, and squares neither overflow nor vanish where they could matter.
  bool ordinary() const {
    return max_abs <= 1e15f && peak <= 1e15f &&
           (peak >= 1e-15f || max_abs >= 1e-15f || (peak == 0.0f && max_abs == 0.0f));
  }
};

OPTEST_INLINE I count_greater(I so_far, F x, F y) {
#if defined(OPTEST_ISA_AVX512)
  const __mmask16 greater = _mm512_cmp_ps_mask((__m512)x, (__m512)y, _CMP_GT_OQ);
  const __m512i count = (__m512i)so_far;
  return (I)_mm512_mask_add_epi32(count, greater, count, _mm512_set1_epi32(1));
#else
  return so_far - (x > y);
#endif
}

struct RunVectors {
  F sum_reference{};
  F sum_difference{};
  // Bits of magnitudes order as these do, NaN above all; negative numbers below zero.
  U max_abs{};
  U peak{};
  I mismatched{};

  // All there is to do where both sides are equal; a NaN makes the sum NaN, and judge_each looks.
  OPTEST_INLINE void measure(U magnitude) {
    sum_reference = fma((F)magnitude, (F)magnitude, sum_reference);
    peak = larger(magnitude, peak);
  }

  // Lanes that hold padding have zeros on both sides and match.
  OPTEST_INLINE void judge(F a, F b, F rtol, F atol) {
    const F difference = (F)((U)(a - b) & kAbs);
    const F magnitude = (F)((U)a & kAbs);
    const F bound = magnitude * rtol + atol;
    measure((U)magnitude);
    mismatched = count_greater(mismatched, difference, bound);
    sum_difference = fma(difference, difference, sum_difference);
    max_abs = larger((U)difference, max_abs);
  }

  OPTEST_INLINE RunSums sums() const {
    RunSums total{0, 0, fp32_of(largest_of(max_abs)), fp32_of(largest_of(peak)), 0};
    for (int lane = 0; lane < kLanes; ++lane) {
      total.sum_reference += sum_reference[lane];
      total.sum_difference += sum_difference[lane];
      total.mismatched += mismatched[lane];
    }
    return total;
  }
};

// Most of what is compared is equal, or equal but for a few: one look then saves half the work. Where
// memory takes longer than judging does, a look that often guesses wrong costs more than it saves.
#if defined(OPTEST_ISA_AVX512)
template <class T>
constexpr bool kLooks = sizeof(T) != 2;
#else
template <class T>
constexpr bool kLooks = true;
#endif

template <size_t kBytes>
OPTEST_INLINE bool same_bytes(const void* a, const void* b) {
#if defined(OPTEST_ISA_AVX512) || defined(OPTEST_ISA_AVX2)
  U apart{};
  for (size_t at = 0; at < kBytes; at += sizeof(U)) {
    apart |= load_raw<U>(static_cast<const char*>(a) + at) ^
             load_raw<U>(static_cast<const char*>(b) + at);
  }
#if defined(OPTEST_ISA_AVX512)
  return _mm512_test_epi32_mask((__m512i)apart, (__m512i)apart) == 0;
#else
  return _mm256_testz_si256((__m256i)apart, (__m256i)apart) != 0;
#endif
#else
  return std::memcmp(a, b, kBytes) == 0;
#endif
}

template <class T>
OPTEST_INLINE RunSums judge_vectors(const T* a, const T* b, int64_t n, Ahead ahead,
                                    const CompareBounds& bounds) {
  const F rtol = splat(static_cast<float>(bounds.rtol));
  const F atol = splat(static_cast<float>(bounds.atol));
  RunVectors vectors;
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    ask_for<kPair * sizeof(T)>(a + i, b + i, ahead);
    const Pair pair_a = load_pair(a + i);
    if (kLooks<T> && same_bytes<kPair * sizeof(T)>(a + i, b + i)) {
      vectors.measure((U)pair_a.a & kAbs);
      vectors.measure((U)pair_a.b & kAbs);
      continue;
    }
    const Pair pair_b = load_pair(b + i);
    vectors.judge(pair_a.a, pair_b.a, rtol, atol);
    vectors.judge(pair_a.b, pair_b.b, rtol, atol);
  }
  for (; i < n; i += kLanes) {
    const int64_t rest = n - i < kLanes ? n - i : kLanes;
    vectors.judge(load_part(a + i, rest), load_part(b + i, rest), rtol, atol);
  }
  return vectors.sums();
}

// Where a run may hold differences above 16 bounds: how large, and how many are gross.
template <class T>
OPTEST_NOINLINE static void judge_far(const T* a, const T* b, int64_t n,
                                      const CompareBounds& bounds, CompareRow* row) {
  const F rtol = splat(static_cast<float>(bounds.rtol));
  const F atol = splat(static_cast<float>(bounds.atol));
  const F floor = splat(static_cast<float>(bounds.gross_floor));
  const F none = splat(-__builtin_inff());
  F margin = none;
  I gross{};
  for (int64_t i = 0; i < n; i += kLanes) {
    const bool whole = i + kLanes <= n;
    const F va = whole ? load(a + i) : load_part(a + i, n - i);
    const F vb = whole ? load(b + i) : load_part(b + i, n - i);
    const F difference = (F)((U)(va - vb) & kAbs);
    const F magnitude = (F)((U)va & kAbs);
    const F bound = magnitude * rtol + atol;
    const F excess = choose(difference > bound * 16.0f, difference - magnitude * 0.5f, none);
    margin = choose(excess > margin, excess, margin);
    gross -= excess > floor;
  }
  for (int lane = 0; lane < kLanes; ++lane) {
    keep_max(&row->margin, margin[lane]);
    row->gross += gross[lane];
  }
}

template <class T>
static void judge_run(const T* a, const T* b, int64_t n, Ahead ahead,
                      const CompareBounds& bounds, CompareRow* row) {
  const RunSums sums = judge_vectors(a, b, n, ahead, bounds);
  if (!sums.ordinary()) {
    judge_each<float>(a, b, n, bounds, row);
    return;
  }
  row->sum_reference += sums.sum_reference;
  row->sum_difference += sums.sum_difference;
  row->mismatched += static_cast<double>(sums.mismatched);
  keep_max(&row->max_abs, sums.max_abs);
  keep_max(&row->peak, sums.peak);
  // No bound is below atol: a look of its own, where it can find something, costs less than one always.
  if (sums.mismatched != 0 && sums.max_abs > 16.0f * static_cast<float>(bounds.atol)) {
    judge_far(a, b, n, bounds, row);
  }
}

static void judge_run(const double* a, const double* b, int64_t n, Ahead,
                      const CompareBounds& bounds, CompareRow* row) {
  judge_each<double>(a, b, n, bounds, row);
}

// ---- values as they lie in memory -----------------------------------------------------------------

// What the elements of a tensor become before they are judged: 8 bits become fp32, all others stay.
template <class T>
struct Judged {
  using Type = T;
  static T of(T value, const float*) { return value; }
};
template <>
struct Judged<int8_t> {
  using Type = float;
  static float of(int8_t value, const float*) { return value; }
};
template <>
struct Judged<uint8_t> {
  using Type = float;
  static float of(uint8_t value, const float*) { return value; }
};
template <>
struct Judged<Code8> {
  using Type = float;
  static float of(Code8 value, const float* codes) { return codes[value.bits]; }
};

template <class T>
OPTEST_INLINE void gather(const char* from, int64_t step, int64_t n, const float* codes,
                          typename Judged<T>::Type* to) {
  for (int64_t i = 0; i < n; ++i) {
    T value;
    std::memcpy(&value, from + i * step, sizeof value);
    to[i] = Judged<T>::of(value, codes);
  }
}

template <class T>
static void compare_reals(const CompareRun& run, const CompareBounds& bounds, CompareRow* row) {
  using Type = typename Judged<T>::Type;
  constexpr int64_t size = sizeof(T);
  const bool dense = run.a_step == size && run.b_step == size;
  const bool in_place = dense && std::is_same_v<T, Type>;
  const int64_t step = in_place ? kRun : kBuffer;
  alignas(64) Type a[kBuffer];
  alignas(64) Type b[kBuffer];
  for (int64_t done = 0; done < run.n; done += step) {
    const int64_t n = run.n - done < step ? run.n - done : step;
    const char* pa = run.a + done * run.a_step;
    const char* pb = run.b + done * run.b_step;
    if (in_place) {
      judge_run(reinterpret_cast<const Type*>(pa), reinterpret_cast<const Type*>(pb), n,
                Ahead::of<T>(run, done + n), bounds, row);
      continue;
    }
    if (dense) {  // a step known at compile time is vectorised
      gather<T>(pa, size, n, run.codes, a);
      gather<T>(pb, size, n, run.codes, b);
    } else {
      gather<T>(pa, run.a_step, n, run.codes, a);
      gather<T>(pb, run.b_step, n, run.codes, b);
    }
    judge_run(a, b, n, Ahead{}, bounds, row);
  }
}

// Exact in integers up to 64 bits: differences are taken modulo 2^64, the smaller from the larger.
template <class T>
static void compare_integers(const CompareRun& run, const CompareBounds& bounds, CompareRow* row) {
  int64_t mismatched = 0;
  int64_t different = 0;
  double peak = 0;
  double max_abs = 0;
  for (int64_t i = 0; i < run.n; ++i) {
    T a;
    T b;
    std::memcpy(&a, run.a + i * run.a_step, sizeof a);
    std::memcpy(&b, run.b + i * run.b_step, sizeof b);
    const auto wide_a = static_cast<uint64_t>(a);
    const auto wide_b = static_cast<uint64_t>(b);
    const uint64_t apart = a > b ? wide_a - wide_b : wide_b - wide_a;
    const double magnitude = std::fabs(static_cast<double>(a));
    const auto difference = static_cast<double>(apart);
    const double bound = magnitude * bounds.rtol + bounds.atol;
    const bool match = bound < 0x1p62 ? apart <= static_cast<uint64_t>(bound) : difference <= bound;
    mismatched += !match;
    different += match && apart != 0;
    keep_max(&peak, magnitude);
    keep_max(&max_abs, difference);
  }
  keep_max(&row->peak, peak);
  keep_max(&row->max_abs, max_abs);
  row->mismatched += static_cast<double>(mismatched);
  row->different += static_cast<double>(different);
}

// ---- the floor ------------------------------------------------------------------------------------

static uint32_t read_both(const char* a, const char* b, int64_t bytes) {
  constexpr int64_t step = sizeof(U);
  U first{};
  U second{};
  int64_t i = 0;
  for (; i + 2 * step <= bytes; i += 2 * step) {
    first ^= load_raw<U>(a + i) ^ load_raw<U>(b + i);
    second ^= load_raw<U>(a + i + step) ^ load_raw<U>(b + i + step);
  }
  uint32_t rest = 0;
  for (; i < bytes; ++i) rest ^= static_cast<uint32_t>(a[i] ^ b[i]);
  return rest ^ largest_of(first ^ second);
}
