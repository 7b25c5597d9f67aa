// Attention of a few queries over tokens whose keys and values lie scattered: a softmax that is kept up
// as tiles of tokens pass by, in fp32. T is what queries and results are of, C what the cache holds.

#include "optest/vec.inl"
#include "optest/codes.inl"
#include "optest/columns.inl"

// ---- numbers --------------------------------------------------------------------------------------

// 2^x to about an ulp, for x <= 0; what lies below 2^-126 comes out as that. A NaN stays one.
OPTEST_INLINE F power_of_two(F x) {
  constexpr float kLn2 = 0.693147181f;
  const F from = at_least(x, splat(-126.0f));
  const F shifted = from + 0x1.8p23f;  // rounds to an integer, which the low bits then hold
  const F rest = (from - (shifted - 0x1.8p23f)) * kLn2;
  F sum = splat(1.0f / 720);
  sum = fma(sum, rest, splat(1.0f / 120));
  sum = fma(sum, rest, splat(1.0f / 24));
  sum = fma(sum, rest, splat(1.0f / 6));
  sum = fma(sum, rest, splat(0.5f));
  sum = fma(sum, rest, splat(1.0f));
  sum = fma(sum, rest, splat(1.0f));
  return sum * (F)(((U)shifted + 127u) << 23);
}

OPTEST_INLINE float largest_number_of(F value) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_reduce_max_ps((__m512)value);
#elif defined(OPTEST_ISA_AVX2)
  const __m256 all = (__m256)value;
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
#else
  float largest = value[0];
  for (int i = 1; i < kLanes; ++i) largest = value[i] > largest ? value[i] : largest;
  return largest;
#endif
}

// Lane i becomes the sum of rows[i].
OPTEST_INLINE F sums_of(const F (&rows)[kLanes]) {
#if defined(OPTEST_ISA_AVX512)
  // Halves the rows and doubles those that share a vector, four times over.
  F pairs[8];
#pragma GCC unroll 16
  for (int i = 0; i < 8; ++i) {
    const __m512 a = (__m512)rows[2 * i], b = (__m512)rows[2 * i + 1];
    pairs[i] = (F)_mm512_unpacklo_ps(a, b) + (F)_mm512_unpackhi_ps(a, b);
  }
  F fours[4];
#pragma GCC unroll 16
  for (int i = 0; i < 4; ++i) {
    const __m512d a = (__m512d)pairs[2 * i], b = (__m512d)pairs[2 * i + 1];
    fours[i] = (F)_mm512_unpacklo_pd(a, b) + (F)_mm512_unpackhi_pd(a, b);
  }
  F eights[2];
#pragma GCC unroll 16
  for (int i = 0; i < 2; ++i) {
    const __m512 a = (__m512)fours[2 * i], b = (__m512)fours[2 * i + 1];
    eights[i] = (F)_mm512_shuffle_f32x4(a, b, 0x88) + (F)_mm512_shuffle_f32x4(a, b, 0xdd);
  }
  const __m512 a = (__m512)eights[0], b = (__m512)eights[1];
  return (F)_mm512_shuffle_f32x4(a, b, 0x88) + (F)_mm512_shuffle_f32x4(a, b, 0xdd);
#elif defined(OPTEST_ISA_AVX2)
  __m256 halves[2];
#pragma GCC unroll 16
  for (int i = 0; i < 2; ++i) {
    const F* const four = rows + 4 * i;
    const __m256 a = _mm256_hadd_ps((__m256)four[0], (__m256)four[1]);
    const __m256 b = _mm256_hadd_ps((__m256)four[2], (__m256)four[3]);
    halves[i] = _mm256_hadd_ps(a, b);
  }
  return (F)_mm256_permute2f128_ps(halves[0], halves[1], 0x20) +
         (F)_mm256_permute2f128_ps(halves[0], halves[1], 0x31);
#else
  F sums;
  for (int i = 0; i < kLanes; ++i) sums[i] = sum_of(rows[i]);
  return sums;
#endif
}

// ---- one tile -------------------------------------------------------------------------------------

// Numbers that a row of n takes in fp32, in whole vectors.
inline int64_t room_of(int64_t n) { return (n + kPair - 1) / kPair * kPair; }

// Numbers of kLanes queries and tokens that one vector of scores holds: Q queries of each token.
template <int Q>
constexpr int kTokens = kLanes / Q;

static_assert(kTileTokens % 16 == 0 && 16 % kLanes == 0, "scores of a tile fill vectors");

template <class C>
OPTEST_INLINE const C* row_of(const TokenRows& rows, int64_t token) {
  return reinterpret_cast<const C*>(rows.base + rows.at[token]);
}

// The next tile's row of this token, asked for into the second level: a tile of all heads is more than
// the first one holds.
OPTEST_INLINE void ask_for_next(const TokenRows& rows, int64_t token, int64_t byte) {
  __builtin_prefetch(rows.base + rows.next[token] + byte, 0, 2);
}

template <int Q>
OPTEST_INLINE void multiply_in(F (&sums)[kLanes], const Pair (&keys)[kTokens<Q>],
                               const float* queries, int64_t room) {
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
    const F a = load(queries + q * room);
    const F b = load(queries + q * room + kLanes);
#pragma GCC unroll 16
    for (int t = 0; t < kTokens<Q>; ++t) {
      F& sum = sums[q * kTokens<Q> + t];
      sum = fma(keys[t].b, b, fma(keys[t].a, a, sum));
    }
  }
}

// Of tokens from `first` on; those that fill up a vector repeat the one before `end`.
template <class C, int Q>
OPTEST_INLINE void find_rows(const TokenRows& keys, int64_t first, int64_t end,
                             const C* (&rows)[kTokens<Q>]) {
  if (first + kTokens<Q> <= end) {  // most of them: comparing each takes longer than the reading
#pragma GCC unroll 16
    for (int t = 0; t < kTokens<Q>; ++t) rows[t] = row_of<C>(keys, first + t);
    return;
  }
  for (int t = 0; t < kTokens<Q>; ++t) {
    rows[t] = row_of<C>(keys, first + t < end ? first + t : end - 1);
  }
}

// sums: [query][token], each in all lanes together.
template <int Q>
OPTEST_INLINE void put_scores(const F (&sums)[kLanes], float factor, int64_t first,
                              float (*scores)[kTileTokens]) {
  float together[kLanes];
  store_raw(together, sums_of(sums) * factor);
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
    std::memcpy(scores[q] + first, together + q * kTokens<Q>, sizeof(float) * kTokens<Q>);
  }
}

// scores[q][t] = query q times key t times the factor, of tokens from `begin` on.
template <class C, int Q>
OPTEST_NOINLINE void score_in_fp32(const TokenRows& keys, const float* queries, int64_t n,
                                   int64_t begin, int64_t end, float factor,
                                   float (*scores)[kTileTokens]) {
  const int64_t room = room_of(n);
  for (int64_t first = begin; first < end; first += kTokens<Q>) {
    const C* rows[kTokens<Q>];
    find_rows<C, Q>(keys, first, end, rows);
    F sums[kLanes];
#pragma GCC unroll 16
    for (F& sum : sums) sum = F{};
    int64_t i = 0;
    for (; i + kPair <= n; i += kPair) {
      Pair pairs[kTokens<Q>];
#pragma GCC unroll 16
      for (int t = 0; t < kTokens<Q>; ++t) {
        ask_for_next(keys, first + t, i * static_cast<int64_t>(sizeof(C)));
        pairs[t] = load_pair(rows[t] + i);
      }
      multiply_in<Q>(sums, pairs, queries + i, room);
    }
    if (i < n) {
      Pair pairs[kTokens<Q>];
      for (int t = 0; t < kTokens<Q>; ++t) pairs[t] = load_pair_part(rows[t] + i, n - i);
      multiply_in<Q>(sums, pairs, queries + i, room);
    }
    put_scores<Q>(sums, factor, first, scores);
  }
}

// One query's largest score so far, `before` and those of `count` tokens. `width` numbers, whole vectors, are
// scores then.
OPTEST_INLINE float largest_score(float* scores, int64_t count, int64_t width, float before) {
  for (int64_t t = count; t < width; ++t) scores[t] = -INFINITY;
  F most = load(scores);
  for (int64_t t = kLanes; t < width; t += kLanes) most = at_least(load(scores + t), most);
  const float found = largest_number_of(most);
  return found > before ? found : before;
}

// Turns its scores into powers around the largest one; their sum. Those of tokens that are not there are the
// smallest number, which no sum of 1 and more feels.
template <bool kAsBf16 = false>
OPTEST_INLINE float make_powers(float* scores, int64_t width, float largest) {
  F sum{};
  for (int64_t t = 0; t < width; t += kLanes) {
    F power = power_of_two(load(scores + t) - splat(largest));
    if (kAsBf16) power = (F)(round_to_bf16(power) & 0xffff0000u);
    store_raw(scores + t, power);
    sum += power;
  }
  return sum_of(sum);
}

// Both, of some queries, of which `largest` and `totals` are brought up to date: what all sums before are to be
// multiplied by.
template <int Q, bool kAsBf16 = false>
OPTEST_INLINE void to_powers(float* scores, int64_t step, int64_t count, int64_t width,
                             float* largest, float* totals, float* before) {
  float moved[kLanes] = {};
  for (int q = 0; q < Q; ++q) {
    const float now = largest_score(scores + q * step, count, width, largest[q]);
    moved[q] = largest[q] - now;
    largest[q] = now;
  }
  store_raw(moved, power_of_two(load(moved)));
  for (int q = 0; q < Q; ++q) {
    before[q] = moved[q];
    totals[q] =
        totals[q] * moved[q] + make_powers<kAsBf16>(scores + q * step, width, largest[q]);
  }
}

// sums[q] = sums[q] * before[q] + the values of `count` tokens, each times its power: kPairs times kPair of
// them from i on, or one time what is left.
template <class C, int Q, int kPairs>
OPTEST_INLINE void add_columns(const TokenRows& values, const float (*powers)[kTileTokens],
                               const float* before, int64_t i, int64_t n, int64_t count,
                               float* sums, int64_t room) {
  F a[Q][kPairs];
  F b[Q][kPairs];
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      const float* const from = sums + q * room + i + p * kPair;
      a[q][p] = load(from) * splat(before[q]);
      b[q][p] = load(from + kLanes) * splat(before[q]);
    }
  }
  const bool whole = i + kPairs * kPair <= n;
  for (int64_t t = 0; t < count; ++t) {
    const C* const at = row_of<C>(values, t) + i;
    Pair value[kPairs];
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      ask_for_next(values, t, (i + p * kPair) * static_cast<int64_t>(sizeof(C)));
      value[p] = kPairs > 1 || whole ? load_pair(at + p * kPair) : load_pair_part(at, n - i);
    }
#pragma GCC unroll 16
    for (int q = 0; q < Q; ++q) {
      const F power = splat(powers[q][t]);
#pragma GCC unroll 4
      for (int p = 0; p < kPairs; ++p) {
        a[q][p] = fma(value[p].a, power, a[q][p]);
        b[q][p] = fma(value[p].b, power, b[q][p]);
      }
    }
  }
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
    for (int p = 0; p < kPairs; ++p) {
      float* const to = sums + q * room + i + p * kPair;
      store_raw(to, a[q][p]);
      store_raw(to + kLanes, b[q][p]);
    }
  }
}

// Queries whose sums fit the registers together.
constexpr int kMostQueries = kLanes == 16 ? 8 : 4;

// Scores of queries `first` to `first + Q` become powers, which are spent on the values.
template <class C, int Q>
OPTEST_NOINLINE void add_in_fp32(const TokenRows& values, int64_t count, const Softmax& run,
                                 int64_t first, float (*scores)[kTileTokens]) {
  float before[Q];
  to_powers<Q>(scores[0], kTileTokens, count, kTileTokens, run.largest + first, run.totals + first,
               before);
  float* const sums = run.sums + first * run.room;
  constexpr int kPairs = kMostQueries / Q < 4 ? kMostQueries / Q : 4;
  int64_t i = 0;
  for (; i + kPairs * kPair <= run.length; i += kPairs * kPair) {
    add_columns<C, Q, kPairs>(values, scores, before, i, run.length, count, sums, run.room);
  }
  for (; i < run.length; i += kPair) {
    add_columns<C, Q, 1>(values, scores, before, i, run.length, count, sums, run.room);
  }
}

// How a tile is multiplied: from queries in fp32, as pack_queries leaves them.
template <class C>
struct InFp32 {
  static int64_t query_bytes(int64_t n) { return room_of(n) * static_cast<int64_t>(sizeof(float)); }

  template <int Q>
  static OPTEST_INLINE void score(const TokenRows& keys, const char* queries, const Softmax& run,
                                  int64_t begin, int64_t end, float (*scores)[kTileTokens]) {
    score_in_fp32<C, Q>(keys, reinterpret_cast<const float*>(queries), run.query_length, begin, end,
                        run.factor, scores);
  }

  template <int Q>
  static OPTEST_INLINE void add(const TokenRows& values, int64_t count, const Softmax& run,
                                int64_t first, float (*scores)[kTileTokens]) {
    add_in_fp32<C, Q>(values, count, run, first, scores);
  }
};

template <class Way>
OPTEST_INLINE void score_group(const TokenRows& keys, const char* queries, const Softmax& run,
                               int64_t group, int64_t begin, int64_t end,
                               float (*scores)[kTileTokens]) {
  const int64_t step = Way::query_bytes(run.query_length);
  int64_t q = 0;
  for (; q + kMostQueries <= group; q += kMostQueries) {
    Way::template score<kMostQueries>(keys, queries + q * step, run, begin, end, scores + q);
  }
  for (; q + 4 <= group; q += 4) {
    Way::template score<4>(keys, queries + q * step, run, begin, end, scores + q);
  }
  for (; q < group; ++q) {
    Way::template score<1>(keys, queries + q * step, run, begin, end, scores + q);
  }
}

inline int64_t score_bytes(int64_t, int64_t, const Heads& heads) {
  return heads.count * heads.group * kTileTokens * static_cast<int64_t>(sizeof(float));
}

// One tile of tokens. Keys of all heads come first, as they follow one another in memory where a token's lie
// side by side: 16 tokens at a time, which are whole vectors of scores.
template <class C, class Way = InFp32<C>>
void attend(const TokenRows& keys, const TokenRows& values, int64_t count, const Softmax& run,
            const Heads& heads) {
  const auto scores = reinterpret_cast<float(*)[kTileTokens]>(run.spare);
  const int64_t group = heads.group;
  for (int64_t begin = 0; begin < count; begin += 16) {
    const int64_t end = begin + 16 < count ? begin + 16 : count;
    for (int64_t h = 0; h < heads.count; ++h) {
      score_group<Way>({keys.base + h * heads.key_step, keys.at, keys.next},
                       run.queries + h * heads.query_step, run, group, begin, end,
                       scores + h * group);
    }
  }
  for (int64_t h = 0; h < heads.count; ++h) {
    const TokenRows of_head{values.base + h * heads.value_step, values.at, values.next};
    int64_t q = h * group;
    for (; q + kMostQueries <= (h + 1) * group; q += kMostQueries) {
      Way::template add<kMostQueries>(of_head, count, run, q, scores + q);
    }
    for (; q + 4 <= (h + 1) * group; q += 4) {
      Way::template add<4>(of_head, count, run, q, scores + q);
    }
    for (; q < (h + 1) * group; ++q) Way::template add<1>(of_head, count, run, q, scores + q);
  }
}

// ---- before and after -----------------------------------------------------------------------------

inline int64_t query_bytes(int64_t count, int64_t n) {
  return count * InFp32<float>::query_bytes(n);
}

// Queries in fp32, in the order in which rows of C are split; zeros behind each.
template <class T, class C>
void pack_queries(const QueryRows& rows, char* to) {
  for (int64_t q = 0; q < rows.count; ++q) {
    float* const out = reinterpret_cast<float*>(to) + q * room_of(rows.length);
    order_columns<C, T>(rows.base + q * rows.step, out, rows.length);
  }
}

// Sums of values that were split as rows of C are, in the order of rows of T.
template <class T, class C>
OPTEST_INLINE void reorder(float* sums, int64_t room) {
  if constexpr (kSplitsEvenOdd<T> != kSplitsEvenOdd<C>) {
    for (; room > 0; room -= kPair, sums += kPair) {
      float before[kPair];
      std::memcpy(before, sums, sizeof before);
      for (int64_t i = 0; i < kPair; ++i) sums[order_as<T>(i)] = before[order_as<C>(i)];
    }
  }
}

// The result of one query from its parts, each around its own largest score. The first part's sums are
// overwritten.
template <class T, class C>
void merge_parts(const Parts& parts, void* out, int64_t n) {
  float largest = parts.largest[0];
  for (int64_t p = 1; p < parts.count; ++p) {
    const float other = parts.largest[p * parts.step];
    largest = other > largest ? other : largest;
  }
  float total = 0.0f;
  for (int64_t p = 0; p < parts.count; ++p) {
    const float weight = std::exp2(parts.largest[p * parts.step] - largest);
    total += parts.totals[p * parts.step] * weight;
    const float* const from = parts.sums + p * parts.step;
    for (int64_t i = 0; i < parts.room; i += kLanes) {
      const F sum = p == 0 ? F{} : load(parts.sums + i);
      store_raw(parts.sums + i, fma(load(from + i), splat(weight), sum));
    }
  }
  reorder<T, C>(parts.sums, parts.room);
  const F factor = splat(parts.value_scale / total);
  const auto scaled = [=](F v) OPTEST_LAMBDA { return v * factor; };
  map<T>(static_cast<T*>(out), n, false, scaled, Columns{parts.sums});
}

// ---- units of AVX-512 -----------------------------------------------------------------------------

#if defined(OPTEST_ISA_AVX512)
#include "attention_units.inl"
#include "attention_pairs.inl"
#endif
