// Elements picked from a row, with their columns, in the order of the columns, and where a ranking of them
// ends. Read once per instruction set, as vec.inl is.

#include "optest/keys.inl"

// Lanes are bits: lane i is bit i.
constexpr uint32_t kAllLanes = (1u << kLanes) - 1;

OPTEST_INLINE uint32_t lanes_up_to(int64_t lanes) {
  return lanes < kLanes ? (1u << lanes) - 1 : kAllLanes;
}

OPTEST_INLINE uint32_t lanes_of(I mask) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_cmplt_epi32_mask((__m512i)mask, _mm512_setzero_si512());
#elif defined(OPTEST_ISA_AVX2)
  return static_cast<uint32_t>(_mm256_movemask_ps((__m256)mask));
#else
  uint32_t lanes = 0;
  for (int i = 0; i < kLanes; ++i) lanes |= (static_cast<uint32_t>(mask[i]) & 1u) << i;
  return lanes;
#endif
}

OPTEST_INLINE uint32_t lanes_above(I keys, int32_t key) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_cmpgt_epi32_mask((__m512i)keys, _mm512_set1_epi32(key));
#else
  return lanes_of(keys > key);
#endif
}

// Those of NaN too, and all where the limit is NaN, as the number of kTaken is.
OPTEST_INLINE uint32_t lanes_above(F values, float limit) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_cmp_ps_mask((__m512)values, _mm512_set1_ps(limit), _CMP_NLE_UQ);
#else
  return lanes_of(~(I)(values <= limit));
#endif
}

OPTEST_INLINE F only(F values, uint32_t lanes) {
#if defined(OPTEST_ISA_AVX512)
  return (F)_mm512_maskz_mov_ps(static_cast<__mmask16>(lanes), (__m512)values);
#else
  const I bits = I{} + 1 << lane_numbers();
  return choose((bits & static_cast<int32_t>(lanes)) != 0, values, F{});
#endif
}

// Writes the lanes that are asked for one after another; behind them up to a vector may change.
template <class T, class V>
OPTEST_INLINE void pack(T* to, V values, uint32_t lanes) {
  static_assert(sizeof(T) == 4 && sizeof(V) == sizeof(F), "lanes of 32 bits");
#if defined(OPTEST_ISA_AVX512)
  _mm512_storeu_si512(
      to, _mm512_maskz_compress_epi32(static_cast<__mmask16>(lanes), (__m512i)values));
#else
  for (; lanes != 0; lanes &= lanes - 1) *to++ = values[__builtin_ctz(lanes)];
#endif
}

// A ranking has the largest keys first, of equal ones the first columns. It ends behind the `ties`-th
// element of this key.
struct Cut {
  int32_t key;
  int64_t ties;
};

// How many of n <= kLanes keys come before each in a ranking.
OPTEST_INLINE void find_ranks(const int32_t (&keys)[kLanes], int64_t n, int32_t (&ranks)[kLanes]) {
  const I all = load_raw<I>(keys);
  I before{};
  for (int64_t i = 0; i < n; ++i) before -= all < keys[i];
  store_raw(ranks, before);
}

// One of kLanes keys taken from n: that before which about so large a share of them lies in a ranking.
OPTEST_INLINE int32_t key_of_rank(const int32_t* keys, int64_t n, float share) {
  int32_t some[kLanes], ranks[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) some[i] = keys[(2 * i + 1) * n / (2 * kLanes)];
  find_ranks(some, kLanes, ranks);
  const auto rank = static_cast<int32_t>(share * kLanes);
  int best = 0;
  for (int i = 1; i < kLanes; ++i) {
    if (std::abs(ranks[i] - rank) < std::abs(ranks[best] - rank)) best = i;
  }
  return some[best];
}

// Ends a ranking behind `left` elements.
struct ByCount {
  int64_t left;
  int64_t above = 0;

  OPTEST_INLINE void look(int64_t, uint32_t lanes) { above += __builtin_popcount(lanes); }
  OPTEST_INLINE void move(int64_t, int64_t, uint32_t) {}
  bool is_above() const { return above >= left; }
  void pass_over() { left -= above; }
  void begin() { above = 0; }
  float share(int64_t n) const { return static_cast<float>(left) / static_cast<float>(n); }
  int64_t ties(int64_t) const { return left; }

  // Of a vector of keys at most: `left` is at most n.
  bool find(const int32_t* keys, int64_t n, Cut* cut) const {
    int32_t some[kLanes], ranks[kLanes];
    store_raw(some, load_raw<I>(keys));
    find_ranks(some, n, ranks);
    int64_t last = -1;
    for (int64_t i = 0; i < n; ++i) {
      if (ranks[i] < left && (last < 0 || ranks[i] > ranks[last])) last = i;
    }
    *cut = {some[last], left - ranks[last]};
    return true;
  }
};

// Ends a ranking of n >= 1 keys where `by` says. The keys are lost, a vector behind them may be.
template <class By>
OPTEST_NOINLINE Cut cut_of(int32_t* keys, int64_t n, By by) {
  I least = I{} + INT32_MAX;
  I most = I{} + INT32_MIN;
  each_vector(n, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
    const I some = load_raw<I>(keys + i);
    const I there = lane_numbers() < static_cast<int32_t>(lanes);
    least = there & (some < least) ? some : least;
    most = there & (some > most) ? some : most;
  });
  int32_t low = smallest_key(least);
  int32_t high = largest_key(most);
  for (int turn = 0; low < high; ++turn) {
    auto middle = static_cast<int32_t>((int64_t{low} + high) >> 1);
    Cut cut;
    if (n <= kLanes && by.find(keys, n, &cut)) return cut;
    // Keys lie closely at one end mostly: some of them part the others better, but need not.
    if (turn % 3 < 2) {
      const int32_t key = key_of_rank(keys, n, by.share(n));
      middle = key < high ? key : high - 1;
    }
    by.begin();
    each_vector(n, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      by.look(i, lanes_above(load_raw<I>(keys + i), middle) & lanes_up_to(lanes));
    });
    const uint32_t flip = by.is_above() ? 0 : kAllLanes;
    if (flip == 0) {
      low = middle + 1;
    } else {
      by.pass_over();
      high = middle;
    }
    int64_t kept = 0;
    each_vector(n, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      const I some = load_raw<I>(keys + i);
      const uint32_t those = (lanes_above(some, middle) ^ flip) & lanes_up_to(lanes);
      pack(keys + kept, some, those);
      by.move(i, kept, those);
      kept += __builtin_popcount(those);
    });
    n = kept;
  }
  return {low, by.ties(n)};
}

// Which lanes a cut leaves, taken in the order of columns.
struct Left {
  Cut cut;

  OPTEST_INLINE uint32_t of(I keys, int64_t lanes) {
    uint32_t equal = lanes_of(keys == cut.key) & lanes_up_to(lanes);
    while (__builtin_popcount(equal) > cut.ties) equal &= ~(1u << (31 - __builtin_clz(equal)));
    cut.ties -= __builtin_popcount(equal);
    return (lanes_above(keys, cut.key) & lanes_up_to(lanes)) | equal;
  }
};

// Elements of a row and their columns.
struct Picked {
  float* values;
  int32_t* columns;
  int32_t* room;  // for keys
  int64_t count;

  // Whole vectors are written, where one element is to be and what is behind it.
  Picked(PickedRoom* in, int64_t elements) : count(0) {
    const auto each = static_cast<size_t>(elements + 2 * kLanes);
    values = in->values.provide(each);
    columns = in->columns.provide(each);
    room = in->keys.provide(each);
  }

  OPTEST_INLINE void add(F some, I at, uint32_t lanes) {
    pack(values + count, some, lanes);
    pack(columns + count, at, lanes);
    count += __builtin_popcount(lanes);
  }
  OPTEST_INLINE void add(F some, int64_t column, uint32_t lanes) {
    add(some, lane_numbers() + static_cast<int32_t>(column), lanes);
  }

  int32_t* keys() const {
    each_vector(count, [&](int64_t, int64_t i) OPTEST_LAMBDA {
      store_raw(room + i, key_of(load(values + i)));
    });
    return room;
  }

  // Leaves the best k of them, k at most their number; returns the key of the last of these.
  OPTEST_NOINLINE int32_t keep_best(int64_t k) {
    Left left{cut_of(keys(), count, ByCount{k})};
    const int32_t last = left.cut.key;
    const int64_t before = count;
    count = 0;
    each_vector(before, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
      const F some = load(values + i);
      add(some, load_raw<I>(columns + i), left.of(key_of(some), lanes));
    });
    return last;
  }
};
