// Rows to blocks of 32 e2m1 codes with a shared power of two each.

#include "optest/vec.inl"

constexpr int64_t kMxBlock = 32;
static_assert(kMxBlock % kPair == 0, "a block is whole vectors");

// The e2m1 code of each lane, in its low four bits. Adding 2^22 times the power of two below |value|,
// at least 1, leaves one bit after the point, so the hardware rounds; the exponent's part of the code is
// then in the sum's upper bits, twice the power's logarithm.
OPTEST_INLINE U encode_e2m1(F value) {
  const F magnitude = at_most((F)((U)value & kAbs), splat(6.0f));
  const U power = larger((U)magnitude & kInf, U{} + 0x3f800000u);
  const U sum = (U)((F)power * 0x1p22f + magnitude);
  constexpr uint32_t origin = 2 * (127 + 22);
  return ((sum + (sum >> 22) - origin) & 7u) | ((U)value >> 28 & 8u);
}

// Two codes a byte, the even column's in the low half.
OPTEST_INLINE void store_codes(uint8_t* to, U first, U second) {
  uint8_t codes[kPair];
  store_raw(codes, low_bytes(first));
  store_raw(codes + kLanes, low_bytes(second));
  const U16 pairs = load_raw<U16>(codes);
  store_raw(to, __builtin_convertvector((pairs | pairs >> 4) & static_cast<uint16_t>(0xff), U8));
}

OPTEST_INLINE I16 smaller(I16 a, I16 b) { return a < b ? a : b; }

// kPair bf16 numbers by their bits alone, each as it stands to half the scale: 128 a power of two, 0 at
// 0.5. From 1 on that is the code but for the bits below the last, which are rounded away to even; under 1
// the fixed steps take over. For a scale of at least 3: bf16 below its normal numbers is nothing then.
OPTEST_INLINE void encode_pair(const Bf16* x, uint32_t scale, uint8_t* codes) {
  const I16 bits = load_raw<I16>(x);
  const I16 half = I16{} + static_cast<int16_t>((static_cast<int>(scale) - 127) * 128 + 126 * 128);
  const I16 from = (bits & static_cast<int16_t>(0x7fff)) - half;
  const I16 normal = (from + static_cast<int16_t>(31) + ((from >> 6) & static_cast<int16_t>(1))) >> 6;
  const I16 fixed = -(from > static_cast<int16_t>(-128)) - (from > static_cast<int16_t>(63));
  const I16 code = larger(smaller(normal, I16{} + static_cast<int16_t>(7)), fixed);
  const U both = (U)(code | ((bits >> 12) & static_cast<int16_t>(8)));
  store_raw(codes, low_bytes(both | both >> 12));
}

template <class T>
OPTEST_INLINE void encode_pair(const T* x, uint32_t scale, uint8_t* codes) {
  const uint32_t inverse_bits = (254 - scale) << 23;
  float inverse;
  std::memcpy(&inverse, &inverse_bits, sizeof inverse);
  const Pair values = load_pair(x);
  store_codes(codes, encode_e2m1(values.a * inverse), encode_e2m1(values.b * inverse));
}

// The exponent of the largest magnitude of a block, 255 of what is no finite number.
template <class T>
OPTEST_INLINE uint32_t largest_exponent(const T* x) {
  LargestBits<T> largest;
  for (int64_t i = 0; i < kMxBlock; i += kPair) largest.take(x + i);
  return largest.result() >> 23;
}

#if defined(OPTEST_ISA_AVX512) || defined(OPTEST_ISA_AVX2)
// By the instruction that finds the least of eight: of the largest, the others' complements.
OPTEST_INLINE uint32_t largest_exponent(const Bf16* x) {
  const __m256i magnitude = _mm256_set1_epi16(0x7fff);
  const __m256i* const from = reinterpret_cast<const __m256i*>(x);
  const __m256i a = _mm256_and_si256(_mm256_loadu_si256(from), magnitude);
  const __m256i b = _mm256_and_si256(_mm256_loadu_si256(from + 1), magnitude);
  const __m256i both = _mm256_max_epi16(a, b);
  const __m128i eight =
      _mm_max_epi16(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1));
  const __m128i least = _mm_minpos_epu16(_mm_xor_si128(eight, _mm_set1_epi16(-1)));
  return (~static_cast<uint32_t>(_mm_cvtsi128_si32(least)) & 0x7fffu) >> 7;
}
#endif

// One whole block. Gives its scale.
template <class T>
OPTEST_INLINE uint8_t quantise_block(const T* x, uint8_t* codes) {
  const uint32_t exponent = largest_exponent(x);
  if (exponent == 255) {
    std::memset(codes, 0, kMxBlock / 2);
    return 255;
  }
  const uint32_t scale = exponent > 2 ? exponent - 2 : 0;
  if (std::is_same_v<T, Bf16> && scale < 3) {
    float wide[kMxBlock];
    for (int64_t i = 0; i < kMxBlock; i += kLanes) store_raw(wide + i, load(x + i));
    for (int64_t i = 0; i < kMxBlock; i += kPair) encode_pair(wide + i, scale, codes + i / 2);
  } else {
    for (int64_t i = 0; i < kMxBlock; i += kPair) encode_pair(x + i, scale, codes + i / 2);
  }
  return static_cast<uint8_t>(scale);
}

template <class T>
void quantise_mx_row(const void* row, uint8_t* codes, uint8_t* scales, int64_t k) {
  const T* const x = static_cast<const T*>(row);
  int64_t i = 0;
  for (; i + kMxBlock <= k; i += kMxBlock) {
    for (int64_t part = 0; part < kMxBlock; part += kPair) ask_for_lines<4>(x + i + part);
    *scales++ = quantise_block(x + i, codes + i / 2);
  }
  if (i < k) {
    T padded[kMxBlock] = {};
    std::memcpy(padded, x + i, static_cast<size_t>(k - i) * sizeof(T));
    uint8_t made[kMxBlock / 2];
    *scales = quantise_block(padded, made);
    std::memcpy(codes + i / 2, made, static_cast<size_t>((k - i + 1) / 2));
  }
}

#include "mx_gemm_kernels.inl"
