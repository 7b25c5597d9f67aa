// Products of bf16 queries and keys of bf16, or of 8-bit floats, which are exact in bf16, and of values of
// these: one instruction sums the products of two numbers in each lane in fp32. Read by attention_kernels.inl,
// once.

// As many as a line of codes has follow one another, at the least.
inline int64_t pair_query_bytes(int64_t count, int64_t n) {
  return count * ((n + 2 * kPair - 1) / (2 * kPair)) * (4 * kPair);
}

// bf16 as they are; zeros behind each.
inline void pack_pairs(const QueryRows& rows, char* to) {
  for (int64_t q = 0; q < rows.count; ++q, to += pair_query_bytes(1, rows.length)) {
    std::memset(to, 0, static_cast<size_t>(pair_query_bytes(1, rows.length)));
    std::memcpy(to, rows.base + q * rows.step, static_cast<size_t>(rows.length) * sizeof(Bf16));
  }
}

// Numbers that a row is multiplied by at a time: those of 64 bytes.
template <class C>
constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(C));

// A line of a row as bf16, in vectors of kPair.
template <class C>
struct LineOf {
  CodesAsBf16<C> codes;

  OPTEST_VBMI OPTEST_INLINE void load(const C* from, __m512i (&bf16)[2]) const {
    codes.load(from, bf16);
  }
};
template <>
struct LineOf<Bf16> {
  OPTEST_INLINE void load(const Bf16* from, __m512i (&bf16)[1]) const {
    bf16[0] = _mm512_loadu_si512(from);
  }
};

// sums[query][token] += queries times keys of a line.
template <class C, int Q>
OPTEST_BF16 OPTEST_INLINE void multiply_line(F (&sums)[kLanes], const LineOf<C>& line,
                                             const C* (&rows)[kTokens<Q>], int64_t i,
                                             const char* queries, int64_t step) {
  constexpr int kParts = static_cast<int>(kLine<C> / kPair);
#pragma GCC unroll 16
  for (int t = 0; t < kTokens<Q>; ++t) {
    __m512i keys[kParts];
    line.load(rows[t] + i, keys);
#pragma GCC unroll 2
    for (int p = 0; p < kParts; ++p) {
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
        F& sum = sums[q * kTokens<Q> + t];
        const U query = load_raw<U>(queries + q * step + (i + p * kPair) * 2);
        sum = (F)_mm512_dpbf16_ps((__m512)sum, (__m512bh)keys[p], (__m512bh)query);
      }
    }
  }
}

// As score_in_fp32. Queries are followed by zeros up to a line's end.
template <class C, int Q>
OPTEST_BF16 OPTEST_NOINLINE void score_pairs(const TokenRows& keys, const char* queries, int64_t n,
                                             int64_t begin, int64_t end, float factor,
                                             float (*scores)[kTileTokens]) {
  const int64_t step = pair_query_bytes(1, n);
  const LineOf<C> line;
  for (int64_t first = begin; first < end; first += kTokens<Q>) {
    const C* rows[kTokens<Q>];
    find_rows<C, Q>(keys, first, end, rows);
    F sums[kLanes];
#pragma GCC unroll 16
    for (F& sum : sums) sum = F{};
    int64_t i = 0;
    for (; i + kLine<C> <= n; i += kLine<C>) {
      for (int t = 0; t < kTokens<Q>; ++t) {
        ask_for_next(keys, first + t, i * static_cast<int64_t>(sizeof(C)));
      }
      multiply_line<C, Q>(sums, line, rows, i, queries, step);
    }
    if (i < n) {
      C padded[kTokens<Q>][kLine<C>] = {};
      const C* lines[kTokens<Q>];
      for (int t = 0; t < kTokens<Q>; ++t) {
        std::memcpy(padded[t], rows[t] + i, static_cast<size_t>(n - i) * sizeof(C));
        lines[t] = padded[t];
      }
      multiply_line<C, Q>(sums, line, lines, 0, queries + i * 2, step);
    }
    put_scores<Q>(sums, factor, first, scores);
  }
}

// ---- values of codes ------------------------------------------------------------------------------

// Powers are rounded to bf16, as the values are exact in it, and two tokens are summed by one instruction.
// The totals are those of the rounded powers.
constexpr int64_t kTokenPairs = kTileTokens / 2;

// The values of two tokens side by side: four vectors of 16 columns, even and odd ones of 32 as rows of C are
// split.
template <class C>
struct ValuesOfTwo {
  CodesAsBf16<C> codes;
  __m512i order;  // of 64 codes, so that unpacking twice splits them so

  OPTEST_VBMI ValuesOfTwo() {
    alignas(64) uint8_t from[64];
    for (int lane = 0; lane < 4; ++lane) {
      for (int i = 0; i < 16; ++i) {
        from[lane * 16 + i] =
            static_cast<uint8_t>(i / 8 * 32 + lane * 8 + i % 4 * 2 + i / 4 % 2);
      }
    }
    order = _mm512_load_si512(from);
  }

  OPTEST_VBMI OPTEST_INLINE void one(const C* from, __m512i (&bf16)[2]) const {
    codes.widen(_mm512_permutexvar_epi8(order, _mm512_loadu_si512(from)), bf16);
  }

  OPTEST_VBMI OPTEST_INLINE void load(const C* a, const C* b, __m512i (&both)[4]) const {
    __m512i of_a[2], of_b[2];
    one(a, of_a);
    one(b, of_b);
#pragma GCC unroll 2
    for (int p = 0; p < 2; ++p) {
      both[2 * p] = _mm512_unpacklo_epi16(of_a[p], of_b[p]);
      both[2 * p + 1] = _mm512_unpackhi_epi16(of_a[p], of_b[p]);
    }
  }
};

// As add_columns, of the 64 codes from i on; rows of tokens go on to a whole pair.
template <class C, int Q>
OPTEST_BF16 OPTEST_INLINE void add_line(const ValuesOfTwo<C>& of_two, const TokenRows& values,
                                        const int (*powers)[kTokenPairs], const float* before,
                                        int64_t i, int64_t count, float* sums, int64_t room) {
  F total[Q][4];
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      total[q][p] = load(sums + q * room + i + p * kLanes) * splat(before[q]);
    }
  }
  for (int64_t pair = 0; 2 * pair < count; ++pair) {
    const int64_t t = 2 * pair;
    ask_for_next(values, t, i);
    ask_for_next(values, t + 1, i);
    __m512i both[4];
    of_two.load(row_of<C>(values, t) + i, row_of<C>(values, t + 1) + i, both);
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) {
        total[q][p] =
            (F)_mm512_dpbf16_ps((__m512)total[q][p], (__m512bh)both[p],
                                (__m512bh)_mm512_set1_epi32(powers[q][pair]));
      }
    }
  }
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) store_raw(sums + q * room + i + p * kLanes, total[q][p]);
  }
}

// As add_in_fp32.
template <class C, int Q>
OPTEST_BF16 OPTEST_NOINLINE void add_codes(const TokenRows& values, int64_t count,
                                           const Softmax& run, int64_t first,
                                           float (*scores)[kTileTokens]) {
  float before[Q];
  to_powers<Q, true>(scores[0], kTileTokens, count, kTileTokens, run.largest + first,
                     run.totals + first, before);
  alignas(64) int powers[Q][kTokenPairs];
  for (int q = 0; q < Q; ++q) {
    for (int64_t t = 0; t < kTileTokens; t += kLanes) {
      store_raw(powers[q] + t / 2, high_halves((U)load(scores[q] + t)));
    }
  }
  float* const sums = run.sums + first * run.room;
  const ValuesOfTwo<C> of_two;
  int64_t i = 0;
  for (; i + kLine<C> <= run.length; i += kLine<C>) {
    add_line<C, Q>(of_two, values, powers, before, i, count, sums, run.room);
  }
  for (; i < run.length; i += kPair) {
    add_columns<C, Q, 1>(values, scores, before, i, run.length, count, sums, run.room);
  }
}

template <class C>
struct OfPairs {
  static int64_t query_bytes(int64_t n) { return pair_query_bytes(1, n); }

  template <int Q>
  static OPTEST_INLINE void score(const TokenRows& keys, const char* queries, const Softmax& run,
                                  int64_t begin, int64_t end, float (*scores)[kTileTokens]) {
    score_pairs<C, Q>(keys, queries, run.query_length, begin, end, run.factor, scores);
  }

  // Of four queries the sums fill the registers.
  template <int Q>
  static OPTEST_INLINE void add(const TokenRows& values, int64_t count, const Softmax& run,
                                int64_t first, float (*scores)[kTileTokens]) {
    if constexpr (std::is_same_v<C, Bf16>) {
      add_in_fp32<C, Q>(values, count, run, first, scores);
    } else if constexpr (Q > 4) {
      for (int q = 0; q < Q; q += 4) add_codes<C, 4>(values, count, run, first + q, scores + q);
    } else {
      add_codes<C, Q>(values, count, run, first, scores);
    }
  }
};
