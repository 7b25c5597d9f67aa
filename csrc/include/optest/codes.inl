// Numbers of 8-bit floats, e4m3fn and e4m3fnuz: each is exact in fp32, and in bf16. Read once per instruction
// set, after vec.inl.

// Without the sign: 4 bits of exponent and 3 of mantissa.
template <int kBias>
OPTEST_INLINE U magnitude_of(U code) {
  const U magnitude = code & 0x7fu;
  const U normal = (magnitude << 20) + (static_cast<uint32_t>(127 - kBias) << 23);
  const F small = __builtin_convertvector((I)magnitude, F) * (1.0f / (4 << kBias));
  return choose(exceeds(magnitude, 7u), normal, (U)small);
}

// Of the code in the low byte of each lane; the others are zero.
OPTEST_INLINE F decode(U code, E4m3fn) {
  const U bits = choose(exceeds(code & 0x7fu, 0x7eu), U{} + 0x7fc00000u, magnitude_of<7>(code));
  return (F)(bits | (code & 0x80u) << 24);
}

// There is no negative zero: 0x80 is NaN.
OPTEST_INLINE F decode(U code, E4m3fnuz) {
  const U bits = magnitude_of<8>(code) | (code & 0x80u) << 24;
  return (F)choose((I)(code == 0x80u), U{} + 0x7fc00000u, bits);
}

// ---- kPair of them --------------------------------------------------------------------------------

// As rows of bf16 are: two codes lie in a lane of 16 bits.
template <>
constexpr bool kSplitsEvenOdd<E4m3fn> = true;
template <>
constexpr bool kSplitsEvenOdd<E4m3fnuz> = true;

#if defined(OPTEST_ISA_AVX512)
// The bf16 of each magnitude: four registers, in which one instruction finds those of 32 codes.
struct Bf16OfMagnitude {
  alignas(64) uint16_t bits[128]{};

  constexpr Bf16OfMagnitude(int bias, bool largest_is_nan) {
    for (int code = 1; code < 128; ++code) {
      int exponent = code < 8 ? 1 : code >> 3;
      int mantissa = code < 8 ? code : 8 + code % 8;
      for (; mantissa < 8; mantissa *= 2) --exponent;
      bits[code] = static_cast<uint16_t>((exponent + 127 - bias) * 128 + (mantissa - 8) * 16);
    }
    if (largest_is_nan) bits[127] = 0x7fc0;
  }
};

template <class C>
constexpr Bf16OfMagnitude kBf16Of{7, true};
template <>
constexpr Bf16OfMagnitude kBf16Of<E4m3fnuz>{8, false};

// The same, byte by byte: two registers each, in which one instruction of VBMI finds those of 64 codes.
template <class C>
struct alignas(64) BytesOfBf16 {
  uint8_t low[128]{};
  uint8_t high[128]{};

  constexpr BytesOfBf16() {
    for (int code = 0; code < 128; ++code) {
      low[code] = static_cast<uint8_t>(kBf16Of<C>.bits[code] & 0xff);
      high[code] = static_cast<uint8_t>(kBf16Of<C>.bits[code] >> 8);
    }
  }
};
template <class C>
constexpr BytesOfBf16<C> kBytesOfBf16;

// Half of the magnitudes, as code & 63 finds them.
template <class C>
OPTEST_INLINE __m512i found_in_half(__m512i codes, int half) {
  const uint16_t* const bits = kBf16Of<C>.bits + 64 * half;
  return _mm512_permutex2var_epi16(_mm512_load_si512(bits), codes, _mm512_load_si512(bits + 32));
}

// 32 of them, in order.
template <class C>
OPTEST_INLINE __m512i bf16_of_codes(const C* from) {
  const __m512i codes =  // the sign is the uppermost bit of 16 then too
      _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  const __mmask32 upper = _mm512_test_epi16_mask(codes, _mm512_set1_epi16(0x40));
  const __m512i magnitude =
      _mm512_mask_blend_epi16(upper, found_in_half<C>(codes, 0), found_in_half<C>(codes, 1));
  constexpr int kFirstOrBoth = 0xf8;  // a | (b & c)
  __m512i numbers = _mm512_ternarylogic_epi64(
      magnitude, codes, _mm512_set1_epi16(static_cast<short>(0x8000)), kFirstOrBoth);
  if constexpr (std::is_same_v<C, E4m3fnuz>) {
    const __mmask32 nan =
        _mm512_cmpeq_epi16_mask(codes, _mm512_set1_epi16(static_cast<short>(0xff80)));
    numbers = _mm512_mask_mov_epi16(numbers, nan, _mm512_set1_epi16(0x7fc0));
  }
  return numbers;
}

template <class C>
OPTEST_INLINE Pair pair_of_codes(const C* from) {
  const U both = (U)bf16_of_codes(from);
  return {(F)(both << 16), (F)(both & 0xffff0000u)};
}
#elif defined(OPTEST_ISA_AVX2)
// Exponent and mantissa of each code as those of fp16, in the lane of its own: there they stand for 2^8 or
// 2^7 times less. What is NaN stays one.
template <class C>
OPTEST_INLINE __m256i fp16_fields(__m256i codes) {
  const __m256i sign_and_fields = _mm256_set1_epi16(static_cast<short>(0xbf80));
  const __m256i fields = _mm256_and_si256(_mm256_srai_epi16(codes, 1), sign_and_fields);
  if constexpr (std::is_same_v<C, E4m3fnuz>) {
    const __m256i nan = _mm256_cmpeq_epi16(fields, _mm256_set1_epi16(static_cast<short>(0x8000)));
    return _mm256_or_si256(fields, _mm256_and_si256(nan, _mm256_set1_epi16(0x7e00)));
  } else {  // the largest alone carries into the exponent's uppermost bit
    const __m256i carried = _mm256_add_epi16(fields, _mm256_set1_epi16(0x80));
    return _mm256_or_si256(fields, _mm256_and_si256(carried, _mm256_set1_epi16(0x4000)));
  }
}

template <class C>
OPTEST_INLINE Pair pair_of_codes(const C* from) {
  // The even codes, then the odd ones, each in the upper byte of a lane of 16 bits.
  const __m256i order = _mm256_setr_epi8(-1, 0, -1, 2, -1, 4, -1, 6, -1, 8, -1, 10, -1, 12, -1, 14,  //
                                         -1, 1, -1, 3, -1, 5, -1, 7, -1, 9, -1, 11, -1, 13, -1, 15);
  const __m256i both =
      _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  const __m256i fields = fp16_fields<C>(_mm256_shuffle_epi8(both, order));
  constexpr float kPower = std::is_same_v<C, E4m3fnuz> ? 128.0f : 256.0f;
  return {(F)_mm256_cvtph_ps(_mm256_castsi256_si128(fields)) * kPower,
          (F)_mm256_cvtph_ps(_mm256_extracti128_si256(fields, 1)) * kPower};
}
#else
template <class C>
OPTEST_INLINE Pair pair_of_codes(const C* from) {
  const U both = load_wide(from);
  return {decode(both & 0xffu, C{}), decode(both >> 8, C{})};
}
#endif

OPTEST_INLINE Pair load_pair(const E4m3fn* from) { return pair_of_codes(from); }
OPTEST_INLINE Pair load_pair(const E4m3fnuz* from) { return pair_of_codes(from); }

// The one of vec.inl does not see these.
template <class C>
OPTEST_INLINE Pair part_of_codes(const C* from, int64_t n) {
  C padded[kPair] = {};
  std::memcpy(padded, from, static_cast<size_t>(n));
  return pair_of_codes(padded);
}
OPTEST_INLINE Pair load_pair_part(const E4m3fn* from, int64_t n) { return part_of_codes(from, n); }
OPTEST_INLINE Pair load_pair_part(const E4m3fnuz* from, int64_t n) {
  return part_of_codes(from, n);
}
