// Codes of 8-bit floats as bf16, by instructions of VBMI. Read once, by kernels of AVX-512, after codes.inl and
// gemm_tiles.inl.

// 64 codes of 8-bit floats at a time.
template <class C>
struct CodesAsBf16 {
  __m512i low_first, low_second, high_first, high_second;  // bytes of bf16 by the low seven bits

  OPTEST_VBMI CodesAsBf16() {
    low_first = _mm512_load_si512(kBytesOfBf16<C>.low);
    low_second = _mm512_load_si512(kBytesOfBf16<C>.low + 64);
    high_first = _mm512_load_si512(kBytesOfBf16<C>.high);
    high_second = _mm512_load_si512(kBytesOfBf16<C>.high + 64);
  }

  // Of each 16 codes: the first eight, then the others.
  OPTEST_VBMI void widen(__m512i codes, __m512i (&bf16)[2]) const {
    const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
    constexpr int kFirstOrBoth = 0xf8;  // a | (b & c)
    __m512i low = _mm512_permutex2var_epi8(low_first, codes, low_second);
    __m512i high = _mm512_ternarylogic_epi64(
        _mm512_permutex2var_epi8(high_first, codes, high_second), codes, sign, kFirstOrBoth);
    if constexpr (std::is_same_v<C, E4m3fnuz>) {  // the sign alone is NaN
      const __mmask64 nan = _mm512_cmpeq_epi8_mask(codes, sign);
      low = _mm512_mask_mov_epi8(low, nan, _mm512_set1_epi8(static_cast<char>(0xc0)));
      high = _mm512_mask_mov_epi8(high, nan, _mm512_set1_epi8(0x7f));
    }
    bf16[0] = _mm512_unpacklo_epi8(low, high);
    bf16[1] = _mm512_unpackhi_epi8(low, high);
  }

  // 64 codes in order.
  OPTEST_VBMI void load(const C* from, __m512i (&bf16)[2]) const {
    const __m512i eights = _mm512_setr_epi64(0, 4, 1, 5, 2, 6, 3, 7);
    widen(_mm512_permutexvar_epi64(eights, _mm512_loadu_si512(from)), bf16);
  }
};
