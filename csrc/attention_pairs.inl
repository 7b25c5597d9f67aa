// Scores of bf16 queries and keys of bf16, or of 8-bit floats, which are exact in bf16: one instruction sums
// the products of two numbers in each lane in fp32. Read by attention_kernels.inl, once.

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

// As add_columns, of the 64 codes from i on.
template <class C, int Q>
OPTEST_BF16 OPTEST_INLINE void add_line(const LineOf<C>& line, const TokenRows& values,
                                        const float (*powers)[kTileTokens], const float* before,
                                        int64_t i, int64_t count, float* sums, int64_t room) {
  F total[Q][4];  // even and odd numbers of both halves
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      total[q][p] = load(sums + q * room + i + p * kLanes) * splat(before[q]);
    }
  }
  for (int64_t t = 0; t < count; ++t) {
    __m512i bf16[2];
    ask_for_next(values, t, i);
    line.load(row_of<C>(values, t) + i, bf16);
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {  // one vector at a time: the sums take half of the registers
      constexpr __mmask32 kOdd = 0xaaaaaaaa;
      const __m512i both = bf16[p / 2];
      const F value = p % 2 == 0 ? (F)((U)both << 16) : (F)_mm512_maskz_mov_epi16(kOdd, both);
#pragma GCC unroll 16
      for (int q = 0; q < Q; ++q) total[q][p] = fma(value, splat(powers[q][t]), total[q][p]);
    }
  }
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) store_raw(sums + q * room + i + p * kLanes, total[q][p]);
  }
}

// As add_in_fp32, of codes.
template <class C, int Q>
OPTEST_BF16 OPTEST_NOINLINE void add_lines(const TokenRows& values, int64_t count,
                                           const Softmax& run, int64_t first,
                                           float (*scores)[kTileTokens]) {
  float before[Q];
  find_powers<Q>(count, run, first, scores, before);
  float* const sums = run.sums + first * run.room;
  const LineOf<C> line;
  int64_t i = 0;
  for (; i + kLine<C> <= run.length; i += kLine<C>) {
    add_line<C, Q>(line, values, scores, before, i, count, sums, run.room);
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
      for (int q = 0; q < Q; q += 4) add_lines<C, 4>(values, count, run, first + q, scores + q);
    } else {
      add_lines<C, Q>(values, count, run, first, scores);
    }
  }
};
