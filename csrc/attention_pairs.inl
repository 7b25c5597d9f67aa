// Scores of bf16 queries and keys of bf16, or of 8-bit floats, which are exact in bf16: one instruction sums
// the products of two numbers in each lane in fp32. Read by attention_kernels.inl, once.

inline int64_t pair_query_bytes(int64_t count, int64_t n) { return count * room_of(n) * 2; }

// bf16 as they are; zeros behind each.
inline void pack_pairs(const QueryRows& rows, char* to) {
  for (int64_t q = 0; q < rows.count; ++q, to += pair_query_bytes(1, rows.length)) {
    std::memset(to, 0, static_cast<size_t>(pair_query_bytes(1, rows.length)));
    std::memcpy(to, rows.base + q * rows.step, static_cast<size_t>(rows.length) * sizeof(Bf16));
  }
}

template <class C>
OPTEST_INLINE __m512i pairs_of(const C* from) {
  return bf16_of_codes(from);
}
OPTEST_INLINE __m512i pairs_of(const Bf16* from) { return _mm512_loadu_si512(from); }

template <int Q>
OPTEST_BF16 OPTEST_INLINE void multiply_pairs_in(F (&sums)[kLanes],
                                                 const __m512i (&keys)[kTokens<Q>],
                                                 const char* queries, int64_t step) {
#pragma GCC unroll 16
  for (int q = 0; q < Q; ++q) {
    const __m512bh query = (__m512bh)load_raw<U>(queries + q * step);
#pragma GCC unroll 16
    for (int t = 0; t < kTokens<Q>; ++t) {
      F& sum = sums[q * kTokens<Q> + t];
      sum = (F)_mm512_dpbf16_ps((__m512)sum, (__m512bh)keys[t], query);
    }
  }
}

// As score_in_fp32.
template <class C, int Q>
OPTEST_BF16 OPTEST_NOINLINE void score_pairs(const TokenRows& keys, const char* queries, int64_t n,
                                             int64_t begin, int64_t end, float factor,
                                             float (*scores)[kTileTokens]) {
  const int64_t step = pair_query_bytes(1, n);
  for (int64_t first = begin; first < end; first += kTokens<Q>) {
    const C* rows[kTokens<Q>];
    find_rows<C, Q>(keys, first, end, rows);
    F sums[kLanes];
#pragma GCC unroll 16
    for (F& sum : sums) sum = F{};
    int64_t i = 0;
    for (; i + kPair <= n; i += kPair) {
      __m512i pairs[kTokens<Q>];
#pragma GCC unroll 16
      for (int t = 0; t < kTokens<Q>; ++t) {
        ask_for_next(keys, first + t, i * static_cast<int64_t>(sizeof(C)));
        pairs[t] = pairs_of(rows[t] + i);
      }
      multiply_pairs_in<Q>(sums, pairs, queries + i * 2, step);
    }
    if (i < n) {
      __m512i pairs[kTokens<Q>];
      for (int t = 0; t < kTokens<Q>; ++t) {
        C padded[kPair] = {};
        std::memcpy(padded, rows[t] + i, static_cast<size_t>(n - i) * sizeof(C));
        pairs[t] = pairs_of(padded);
      }
      multiply_pairs_in<Q>(sums, pairs, queries + i * 2, step);
    }
    put_scores<Q>(sums, factor, first, scores);
  }
}

template <class C>
struct ScoresOfPairs {
  static int64_t query_bytes(int64_t n) { return pair_query_bytes(1, n); }

  template <int Q>
  static OPTEST_INLINE void score(const TokenRows& keys, const char* queries, const Softmax& run,
                                  int64_t begin, int64_t end, float (*scores)[kTileTokens]) {
    score_pairs<C, Q>(keys, queries, run.query_length, begin, end, run.factor, scores);
  }
};
