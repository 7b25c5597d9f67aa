// Vectors of fp32 numbers, as wide as the instruction set has them. Read once per instruction set (see
// each_isa.h). Arithmetic is the compilers' own on vector types; intrinsics stand only where C++ has no
// word: fused multiply-add, fp16, narrowing, stores past the caches.

#if defined(OPTEST_ISA_AVX512)
constexpr int kLanes = 16;
#elif defined(OPTEST_ISA_AVX2)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

#define OPTEST_INLINE inline __attribute__((always_inline))
#define OPTEST_NOINLINE __attribute__((noinline))
#define OPTEST_LAMBDA __attribute__((always_inline))

typedef float F __attribute__((vector_size(kLanes * 4)));
typedef uint32_t U __attribute__((vector_size(kLanes * 4)));
typedef int32_t I __attribute__((vector_size(kLanes * 4)));
typedef int16_t I16 __attribute__((vector_size(kLanes * 4)));  // two a lane
typedef uint16_t U16 __attribute__((vector_size(kLanes * 2)));
typedef uint8_t U8 __attribute__((vector_size(kLanes)));

constexpr uint32_t kAbs = 0x7fffffffu;  // all but the sign
constexpr uint32_t kInf = 0x7f800000u;  // the exponent's bits; what is above is NaN

template <class V>
OPTEST_INLINE V load_raw(const void* from) {
  V value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class V>
OPTEST_INLINE void store_raw(void* to, V value) {
  std::memcpy(to, &value, sizeof value);
}

OPTEST_INLINE F splat(float value) { return value - F{}; }

// ---- arithmetic -----------------------------------------------------------------------------------

OPTEST_INLINE F choose(I mask, F yes, F no) { return mask ? yes : no; }
OPTEST_INLINE U choose(I mask, U yes, U no) { return mask ? yes : no; }

// NaN in `value` stays: the machine's min and max give their second operand then. `larger` is for
// numbers below 2^31.
#if defined(OPTEST_ISA_AVX512)
OPTEST_INLINE F at_most(F value, F limit) {
  return (F)_mm512_min_ps((__m512)limit, (__m512)value);
}
OPTEST_INLINE F at_least(F value, F limit) {
  return (F)_mm512_max_ps((__m512)limit, (__m512)value);
}
OPTEST_INLINE U larger(U a, U b) { return (U)_mm512_max_epi32((__m512i)a, (__m512i)b); }
OPTEST_INLINE I16 larger(I16 a, I16 b) { return (I16)_mm512_max_epi16((__m512i)a, (__m512i)b); }
#elif defined(OPTEST_ISA_AVX2)
OPTEST_INLINE F at_most(F value, F limit) {
  return (F)_mm256_min_ps((__m256)limit, (__m256)value);
}
OPTEST_INLINE F at_least(F value, F limit) {
  return (F)_mm256_max_ps((__m256)limit, (__m256)value);
}
OPTEST_INLINE U larger(U a, U b) { return (U)_mm256_max_epi32((__m256i)a, (__m256i)b); }
OPTEST_INLINE I16 larger(I16 a, I16 b) { return (I16)_mm256_max_epi16((__m256i)a, (__m256i)b); }
#else
OPTEST_INLINE F at_most(F value, F limit) { return choose(limit < value, limit, value); }
OPTEST_INLINE F at_least(F value, F limit) { return choose(limit > value, limit, value); }
OPTEST_INLINE U larger(U a, U b) { return choose((I)a > (I)b, a, b); }
OPTEST_INLINE I16 larger(I16 a, I16 b) { return a > b ? a : b; }
#endif

OPTEST_INLINE I exceeds(U value, uint32_t limit) { return (I)value > static_cast<int32_t>(limit); }

// a * b + c, a * b - c and c - a * b, rounded once where the machine can.
#if defined(OPTEST_ISA_AVX512)
constexpr bool kFma = true;
OPTEST_INLINE F fma(F a, F b, F c) { return (F)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
OPTEST_INLINE F fms(F a, F b, F c) { return (F)_mm512_fmsub_ps((__m512)a, (__m512)b, (__m512)c); }
OPTEST_INLINE F fnma(F a, F b, F c) { return (F)_mm512_fnmadd_ps((__m512)a, (__m512)b, (__m512)c); }
#elif defined(OPTEST_ISA_AVX2)
constexpr bool kFma = true;
OPTEST_INLINE F fma(F a, F b, F c) { return (F)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c); }
OPTEST_INLINE F fms(F a, F b, F c) { return (F)_mm256_fmsub_ps((__m256)a, (__m256)b, (__m256)c); }
OPTEST_INLINE F fnma(F a, F b, F c) { return (F)_mm256_fnmadd_ps((__m256)a, (__m256)b, (__m256)c); }
#elif defined(OPTEST_ISA_NEON)
constexpr bool kFma = true;
OPTEST_INLINE F fma(F a, F b, F c) {
  return (F)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
OPTEST_INLINE F fms(F a, F b, F c) { return fma(a, b, -c); }
OPTEST_INLINE F fnma(F a, F b, F c) {
  return (F)vfmsq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
#else
constexpr bool kFma = false;
OPTEST_INLINE F fma(F a, F b, F c) { return a * b + c; }
OPTEST_INLINE F fms(F a, F b, F c) { return a * b - c; }
OPTEST_INLINE F fnma(F a, F b, F c) { return c - a * b; }
#endif

// 1 / value to an ulp, for value >= 1. A division takes longer where vectors are widest.
OPTEST_INLINE F reciprocal_of(F value) {
#if defined(OPTEST_ISA_AVX512)
  const F near = (F)_mm512_rcp14_ps((__m512)value);
  const F better = fma(fnma(value, near, splat(1.0f)), near, near);
  // The correction makes a NaN of 1 / infinity; the table puts zero there and leaves the rest.
  const __m512i zero_for_infinity = _mm512_set1_epi32(8 << 20);
  return (F)_mm512_fixupimm_ps((__m512)better, (__m512)value, zero_for_infinity, 0);
#else
  return 1.0f / value;
#endif
}

// Over all lanes, in a tree where a chain of scalars would take longer than the rest of a short row.
OPTEST_INLINE float sum_of(F value) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_reduce_add_ps((__m512)value);
#elif defined(OPTEST_ISA_AVX2)
  const __m256 all = (__m256)value;
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
#elif defined(OPTEST_ISA_NEON)
  return vaddvq_f32((float32x4_t)value);
#else
  float sum = 0.0f;
  for (int i = 0; i < kLanes; ++i) sum += value[i];
  return sum;
#endif
}

OPTEST_INLINE uint32_t largest_of(U value) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_reduce_max_epu32((__m512i)value);
#elif defined(OPTEST_ISA_AVX2)
  const __m256i all = (__m256i)value;
  const __m128i four = _mm_max_epu32(_mm256_castsi256_si128(all), _mm256_extracti128_si256(all, 1));
  const __m128i two = _mm_max_epu32(four, _mm_unpackhi_epi64(four, four));
  return static_cast<uint32_t>(_mm_cvtsi128_si32(_mm_max_epu32(two, _mm_shuffle_epi32(two, 1))));
#elif defined(OPTEST_ISA_NEON)
  return vmaxvq_u32((uint32x4_t)value);
#else
  uint32_t largest = 0;
  for (int i = 0; i < kLanes; ++i) largest = value[i] > largest ? value[i] : largest;
  return largest;
#endif
}

// ---- to fp32 --------------------------------------------------------------------------------------

OPTEST_INLINE F load(const float* from) { return load_raw<F>(from); }

OPTEST_INLINE U load_wide(const void* from) {  // uint16_t to uint32_t
#if defined(OPTEST_ISA_AVX512)
  return (U)_mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
#elif defined(OPTEST_ISA_AVX2)
  return (U)_mm256_cvtepu16_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
#else
  return __builtin_convertvector(load_raw<U16>(from), U);
#endif
}

OPTEST_INLINE F load(const Bf16* from) { return (F)(load_wide(from) << 16); }

OPTEST_INLINE F load(const Fp16* from) {
#if defined(OPTEST_ISA_AVX512)
  return (F)_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(OPTEST_ISA_AVX2)
  return (F)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(OPTEST_ISA_NEON)
  return (F)vcvt_f32_f16((float16x4_t)load_raw<U16>(from));
#else
  const U bits = load_wide(from);
  const U magnitude = (bits & 0x7fffu) << 13;
  // The product moves the exponent and renormalises denormals.
  const U scaled = (U)((F)magnitude * 0x1p112f);
  const U special = choose(exceeds(magnitude, 0x0f7fffffu), U{} + kInf, U{});
  return (F)(scaled | special | (bits & 0x8000u) << 16);
#endif
}

// ---- from fp32, to nearest, ties to even ----------------------------------------------------------

// The low halves, or low bytes, of all lanes.
OPTEST_INLINE U16 low_halves(U value) {
#if defined(OPTEST_ISA_AVX512)
  return (U16)_mm512_cvtepi32_epi16((__m512i)value);
#elif defined(OPTEST_ISA_AVX2)
  const U low = value & 0xffffu;  // the instruction saturates what is wider
  const __m256i packed = _mm256_packus_epi32((__m256i)low, (__m256i)low);
  return (U16)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
#else
  return __builtin_convertvector(value, U16);
#endif
}

OPTEST_INLINE U16 high_halves(U value) {
#if defined(OPTEST_ISA_AVX2)
  const __m256i high = _mm256_shuffle_epi8(
      (__m256i)value, _mm256_setr_epi8(2, 3, 6, 7, 10, 11, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                       2, 3, 6, 7, 10, 11, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1));
  return (U16)_mm_unpacklo_epi64(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
#else
  return low_halves(value >> 16);
#endif
}

OPTEST_INLINE U8 low_bytes(U value) {
#if defined(OPTEST_ISA_AVX512)
  return (U8)_mm512_cvtepi32_epi8((__m512i)value);
#elif defined(OPTEST_ISA_AVX2)
  const __m256i low = _mm256_shuffle_epi8(
      (__m256i)value, _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
                                       0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1));
  const __m128i both =
      _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
  return load_raw<U8>(&both);
#else
  return __builtin_convertvector(value, U8);
#endif
}

// The bf16 in the upper half of each lane; what is below is left over. A NaN stays one unless all the
// upper bits of its payload are set and some of the lower: none that arithmetic makes of bf16 and fp16.
OPTEST_INLINE U round_to_bf16(F value) {
  const U bits = (U)value;
  return bits + 0x7fffu + ((bits >> 16) & 1u);
}

OPTEST_INLINE U16 round_to_fp16(F value) {
#if defined(OPTEST_ISA_AVX512)
  return (U16)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT);
#elif defined(OPTEST_ISA_AVX2)
  return (U16)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT);
#elif defined(OPTEST_ISA_NEON)
  return (U16)vcvt_f16_f32((float32x4_t)value);
#else
  const U bits = (U)value;
  const U magnitude = bits & kAbs;
  // Below 2^-14 fp16 has fixed steps of 2^-24: adding 0.5 lines the bits up and rounds them.
  const U small = (U)((F)magnitude + 0.5f) - 0x3f000000u;
  const U normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  U result = choose(exceeds(magnitude, 0x387fffffu), normal, small);
  result = choose(exceeds(magnitude, 0x477fefffu), U{} + 0x7c00u, result);
  result = choose(exceeds(magnitude, kInf), U{} + 0x7e00u, result);
  return low_halves(result | (bits >> 16 & 0x8000u));
#endif
}

// Rounded to nearest, ties to even.
OPTEST_INLINE void store(float* to, F value) { store_raw(to, value); }
OPTEST_INLINE void store(Bf16* to, F value) { store_raw(to, high_halves(round_to_bf16(value))); }
OPTEST_INLINE void store(Fp16* to, F value) { store_raw(to, round_to_fp16(value)); }

// ---- parts of a vector ----------------------------------------------------------------------------

template <class T>
OPTEST_INLINE F load_part(const T* from, int64_t n) {
  T padded[kLanes] = {};
  std::memcpy(padded, from, static_cast<size_t>(n) * sizeof(T));
  return load(padded);
}

// The first n elements.
template <class T>
OPTEST_INLINE void store_part(T* to, F value, int64_t n) {
  T padded[kLanes];
  store(padded, value);
  std::memcpy(to, padded, static_cast<size_t>(n) * sizeof(T));
}

// n numbers in fp32.
template <class T>
OPTEST_INLINE void widen(const T* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load(from + i));
  if (i < n) store_part(to + i, load_part(from + i, n - i), n - i);
}

// ---- two vectors at a time ------------------------------------------------------------------------

// kPair adjacent elements, so that one half is worked on while the other waits for its arithmetic. Those
// of a bf16 row are split into even and odd ones, which takes a shift and a mask and no shuffle; those of
// other rows into the first and the second half. What meets in one operation must be split alike.
constexpr int kPair = 2 * kLanes;
struct Pair {
  F a;
  F b;
};

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "bf16 rows would be split otherwise");
template <class T>
constexpr bool kSplitsEvenOdd = false;
template <>
constexpr bool kSplitsEvenOdd<Bf16> = true;

template <class T>
OPTEST_INLINE Pair load_pair(const T* from) {
  if constexpr (kSplitsEvenOdd<T>) {
    const U both = load_raw<U>(from);
    return {(F)(both << 16), (F)(both & 0xffff0000u)};
  } else {
    return {load(from), load(from + kLanes)};
  }
}

template <class T>
OPTEST_INLINE Pair load_pair_part(const T* from, int64_t n) {
  T padded[kPair] = {};
  std::memcpy(padded, from, static_cast<size_t>(n) * sizeof(T));
  return load_pair(padded);
}

// To memory; with kPastCaches (and `to` a multiple of the vector's size) past the caches: a line that is
// written whole need not be read first, and the output does not push the inputs out. finish_stream() of
// memory.h ends it.
template <bool kPastCaches, class V>
OPTEST_INLINE void put(void* to, V value) {
#if defined(OPTEST_X86)
  if constexpr (!kPastCaches) {
    store_raw(to, value);
  } else if constexpr (sizeof(V) == 4) {
    _mm_stream_si32(static_cast<int*>(to), load_raw<int>(&value));
  } else if constexpr (sizeof(V) == 8) {
    _mm_stream_si64(static_cast<long long*>(to), load_raw<long long>(&value));
  } else if constexpr (sizeof(V) == 16) {
    _mm_stream_si128(static_cast<__m128i*>(to), (__m128i)value);
#if defined(OPTEST_ISA_AVX2) || defined(OPTEST_ISA_AVX512)
  } else if constexpr (sizeof(V) == 32) {
    _mm256_stream_si256(static_cast<__m256i*>(to), (__m256i)value);
#endif
#if defined(OPTEST_ISA_AVX512)
  } else {
    _mm512_stream_si512(static_cast<__m512i*>(to), (__m512i)value);
#endif
  }
#else
  store_raw(to, value);
#endif
}

// Split as rows of `Like` are.
template <class Like, bool kPastCaches, class T>
OPTEST_INLINE void store_pair(T* to, F a, F b) {
  static_assert(kSplitsEvenOdd<Like> == kSplitsEvenOdd<T>, "halves would change places");
  if constexpr (std::is_same_v<T, Bf16>) {
    put<kPastCaches>(to, round_to_bf16(a) >> 16 | (round_to_bf16(b) & 0xffff0000u));
  } else if constexpr (std::is_same_v<T, Fp16>) {
    put<kPastCaches>(to, round_to_fp16(a));
    put<kPastCaches>(to + kLanes, round_to_fp16(b));
  } else {
    put<kPastCaches>(to, a);
    put<kPastCaches>(to + kLanes, b);
  }
}

// Codes of 8 bits, in the low byte of each lane.
template <class Like, bool kPastCaches, class Code>
OPTEST_INLINE void store_pair(Code* to, U a, U b) {
  if constexpr (kSplitsEvenOdd<Like>) {
    put<kPastCaches>(to, low_halves((a & 0xffu) | b << 8));
  } else {
    put<kPastCaches>(to, low_bytes(a));
    put<kPastCaches>(to + kLanes, low_bytes(b));
  }
}

// Reductions over rows: take() takes kPair elements, in sums that need not wait for each other.

// Bits of the largest |x|, as fp32. They order as the magnitudes do, NaN above them all: a NaN anywhere
// gives a NaN. Those of 16 bits are compared as they are.
template <class T>
struct LargestBits {
  I16 largest{};

  OPTEST_INLINE void take(const T* at) {
    largest = larger(largest, load_raw<I16>(at) & static_cast<int16_t>(0x7fff));
  }
  OPTEST_INLINE uint32_t result() const {
    const U both = (U)largest;
    const uint32_t bits = largest_of(larger(both & 0xffffu, both >> 16));
    if constexpr (std::is_same_v<T, Bf16>) return bits << 16;
    const T widest{static_cast<uint16_t>(bits)};
    return ((U)load_part(&widest, 1))[0];
  }
};

template <>
struct LargestBits<float> {
  U a{};
  U b{};

  OPTEST_INLINE void take(const float* at) {
    const Pair v = load_pair(at);
    a = larger(a, (U)v.a & kAbs);
    b = larger(b, (U)v.b & kAbs);
  }
  OPTEST_INLINE uint32_t result() const { return largest_of(larger(a, b)); }
};

template <class T>
struct SumOfSquares {
  F a{};
  F b{};

  OPTEST_INLINE void take(const T* at) {
    const Pair v = load_pair(at);
    a = fma(v.a, v.a, a);
    b = fma(v.b, v.b, b);
  }
  OPTEST_INLINE float result() const { return sum_of(a + b); }
};

template <class Reduce, class T>
OPTEST_INLINE void take_part(Reduce* reduce, const T* at, int64_t n) {
  T padded[kPair] = {};
  std::memcpy(padded, at, static_cast<size_t>(n) * sizeof(T));
  reduce->take(padded);
}

// ---- memory ---------------------------------------------------------------------------------------

// Copies bytes past the caches. finish_stream() of memory.h ends it.
OPTEST_INLINE void stream(void* destination, const void* source, int64_t bytes) {
  char* to = static_cast<char*>(destination);
  const char* from = static_cast<const char*>(source);
#if defined(OPTEST_X86)
  const int64_t head = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) & 63u);
  if (bytes >= head + 64) {
    std::memcpy(to, from, static_cast<size_t>(head));
    to += head;
    from += head;
    bytes -= head;
    for (; bytes >= 64; bytes -= 64, to += 64, from += 64) {
#if defined(OPTEST_ISA_AVX512)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#else
      for (int i = 0; i < 64; i += 16) {
        const __m128i piece = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
        _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), piece);
      }
#endif
    }
  }
#endif
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

// ---- rows -----------------------------------------------------------------------------------------

// A long run. The processor fetches ahead within one page, from which a core gets half of what it gets
// from several pages at once: lines are asked for in turn from each of the kPages pages to come.
template <class T, int kPages>
struct Streamed {
  const T* at;
};

template <int kPages, class T>
OPTEST_INLINE void ask_for_lines(const T* place) {
  constexpr uintptr_t lines = 64 * kPages, bytes = kPair * sizeof(T);
  constexpr int64_t step = 64 / sizeof(T);
  // Once a line: what asks takes as long as the arithmetic of a row's short vectors.
  if (bytes < 64 && reinterpret_cast<uintptr_t>(place) % 64 >= bytes) return;
  for (int64_t part = 0; part < kPair; part += step) {
    const uintptr_t line = reinterpret_cast<uintptr_t>(place + part) / 64;
    const uintptr_t within = line % lines;
    const uintptr_t ahead = line - within + lines + within % kPages * 64 + within / kPages;
    __builtin_prefetch(reinterpret_cast<const void*>(ahead * 64));
  }
}

// A page far ahead of `end`, where the kBytes before it begin one.
template <int64_t kBytes>
OPTEST_INLINE void ask_for_page(const void* end) {
  constexpr uintptr_t page = 4096;
  constexpr uintptr_t ahead = 16 * page;
  const uintptr_t at = reinterpret_cast<uintptr_t>(end);
  if (at % page < kBytes) __builtin_prefetch(reinterpret_cast<const void*>(at - at % page + ahead));
}

// The same for what is read once and nothing else beside it. AMD's cores from Zen 4 on, the first with AVX-512,
// fetch the lines of a page by themselves, and as many as can be asked for are fewer: there the first of a page
// far ahead is asked for, since finding a page, in a virtual machine, takes longer than fetching it.
template <int kPages, class T>
OPTEST_INLINE void ask_for_stream(const T* place) {
  if (kLanes < 16 || !kIsAmd) return ask_for_lines<kPages>(place);
  ask_for_page<kPair * static_cast<int64_t>(sizeof(T))>(place + kPair);
}

// A row that a first pass has left in a cache, and beside it, at the same pace, the next row's first pass:
// memory then has work all the time. Reduce takes the next row's vectors.
template <class T, class Reduce>
struct WithNext {
  const T* at;
  const T* next;
  Reduce* reduce;
};

// A number for each column, in the order in which load_pair splits the rows it meets (order_as).
struct Columns {
  const float* at;
};

// Where column i of a row of T stands among its Columns.
template <class T>
OPTEST_INLINE int64_t order_as(int64_t i) {
  const int64_t within = i % kPair;
  return kSplitsEvenOdd<T> ? i - within + within % 2 * kLanes + within / 2 : i;
}

template <class T>
OPTEST_INLINE Pair fetch(const T* in, int64_t i) {
  return load_pair(in + i);
}
template <class T, int kPages>
OPTEST_INLINE Pair fetch(Streamed<T, kPages> in, int64_t i) {
  ask_for_lines<kPages>(in.at + i);
  return load_pair(in.at + i);
}
template <class T, class Reduce>
OPTEST_INLINE Pair fetch(WithNext<T, Reduce> in, int64_t i) {
  ask_for_lines<4>(in.next + i);
  in.reduce->take(in.next + i);
  return load_pair(in.at + i);
}
OPTEST_INLINE Pair fetch(Columns in, int64_t i) { return load_pair(in.at + i); }

// What is left of a row from element i on, n elements.
template <class T>
OPTEST_INLINE Pair fetch_rest(const T* in, int64_t i, int64_t n) {
  return load_pair_part(in + i, n);
}
template <class T, int kPages>
OPTEST_INLINE Pair fetch_rest(Streamed<T, kPages> in, int64_t i, int64_t n) {
  return load_pair_part(in.at + i, n);
}
template <class T, class Reduce>
OPTEST_INLINE Pair fetch_rest(WithNext<T, Reduce> in, int64_t i, int64_t n) {
  take_part(in.reduce, in.next + i, n);
  return load_pair_part(in.at + i, n);
}
OPTEST_INLINE Pair fetch_rest(Columns in, int64_t i, int64_t) { return load_pair(in.at + i); }

// A reduction of n elements that are read in one pass.
template <class Reduce, class T>
OPTEST_INLINE auto reduced(const T* x, int64_t n) {
  Reduce reduce;
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) {
    ask_for_lines<4>(x + i);
    reduce.take(x + i);
  }
  if (i < n) take_part(&reduce, x + i, n - i);
  return reduce.result();
}

template <class Like, bool kPastCaches, class Out, class Fn, class... Pairs>
OPTEST_INLINE void apply(Out* to, const Fn& fn, Pairs... in) {
  store_pair<Like, kPastCaches>(to, fn(in.a...), fn(in.b...));
}

template <class T, bool kPastCaches, class Out, class Fn, class... In>
OPTEST_INLINE int64_t map_whole_pairs(Out* out, int64_t n, const Fn& fn, In... in) {
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) apply<T, kPastCaches>(out + i, fn, fetch(in, i)...);
  return i;
}

// out[i] = fn(in[i]...) for n elements of rows of T; each input is a pointer, Streamed, WithNext or
// Columns. With past_caches, rows that begin where vectors may be written past them are.
template <class T, class Out, class Fn, class... In>
OPTEST_INLINE void map(Out* out, int64_t n, bool past_caches, const Fn& fn, In... in) {
  const bool aligned = reinterpret_cast<uintptr_t>(out) % (kPair * sizeof(Out)) == 0;
  const int64_t i = past_caches && aligned ? map_whole_pairs<T, true>(out, n, fn, in...)
                                           : map_whole_pairs<T, false>(out, n, fn, in...);
  if (i < n) {
    Out padded[kPair];
    apply<T, false>(padded, fn, fetch_rest(in, i, n - i)...);
    std::memcpy(out + i, padded, static_cast<size_t>(n - i) * sizeof(Out));
  }
}
