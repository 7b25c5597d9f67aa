// Rotary position embedding of heads, in fp32: pairs of elements turn by their token's angles.

#include "optest/vec.inl"

#include "optest/columns.inl"

// ---- one vector -----------------------------------------------------------------------------------

// The first n elements of a vector; all of them where kWhole.
template <bool kWhole, class T>
OPTEST_INLINE F load_first(const T* from, int64_t n) {
  if constexpr (kWhole) return load(from);
  return load_part(from, n);
}

template <bool kWhole, class T>
OPTEST_INLINE void store_first(T* to, F value, int64_t n) {
  if constexpr (kWhole) return store(to, value);
  store_part(to, value, n);
}

// step(whole, i, n) for each vector of n elements, from element i on; `whole` is a constant.
template <class Step>
OPTEST_INLINE void for_vectors(int64_t begin, int64_t end, const Step& step) {
  int64_t i = begin;
  for (; i + kLanes <= end; i += kLanes) step(std::true_type{}, i, int64_t{kLanes});
  if (i < end) step(std::false_type{}, i, end - i);
}

// Elements 2i and 2i + 1 change places.
OPTEST_INLINE F neighbours(F value) {
#if defined(OPTEST_ISA_AVX512)
  return (F)_mm512_permute_ps((__m512)value, 0xb1);
#elif defined(OPTEST_ISA_AVX2)
  return (F)_mm256_permute_ps((__m256)value, 0xb1);
#elif defined(OPTEST_ISA_NEON)
  return (F)vrev64q_f32((float32x4_t)value);
#else
  F swapped{};
  for (int i = 0; i < kLanes; ++i) swapped[i] = value[i ^ 1];
  return swapped;
#endif
}

// ---- a head ---------------------------------------------------------------------------------------

// Elements that the cosines of a token, and its sines, must have room for.
inline int64_t angles_room(int64_t rotary) { return (rotary + kLanes - 1) / kLanes * kLanes; }

// A row of the cache in fp32: for neox one number a pair; for gptj one an element, the sine of a pair's
// first one negative, so that a head there is one product with itself and one with its neighbours.
template <class C>
void read_angles(const void* row, float* cos, float* sin, int64_t rotary, bool neox) {
  const C* const from = static_cast<const C*>(row);
  const int64_t half = rotary / 2;
  for_vectors(0, half, [=](auto whole, int64_t i, int64_t n) OPTEST_LAMBDA {
    const F c = load_first<whole>(from + i, n);
    const F s = load_first<whole>(from + half + i, n);
    if (neox) {
      store_first<whole>(cos + i, c, n);
      store_first<whole>(sin + i, s, n);
      return;
    }
    for (int64_t lane = 0; lane < n; ++lane) {
      const int64_t at = 2 * (i + lane);
      cos[at] = cos[at + 1] = c[lane];
      sin[at] = -s[lane];
      sin[at + 1] = s[lane];
    }
  });
}

// `made(v, i)` makes what turns of the vector that stands at element i. With kAhead, memory is asked for
// lines to come, where no other pass has done so.
template <bool kAhead, class T, class Made>
OPTEST_INLINE void turn_neox(T* head, const float* cos, const float* sin, int64_t half,
                             const Made& made) {
  for_vectors(0, half, [=](auto whole, int64_t i, int64_t n) OPTEST_LAMBDA {
    if constexpr (kAhead) ask_for_stream<2>(head + 2 * i);
    const F a = made(load_first<whole>(head + i, n), i);
    const F b = made(load_first<whole>(head + half + i, n), half + i);
    const F c = load(cos + i);
    const F s = load(sin + i);
    store_first<whole>(head + i, fms(a, c, b * s), n);
    store_first<whole>(head + half + i, fma(b, c, a * s), n);
  });
}

template <bool kAhead, class T, class Made>
OPTEST_INLINE void turn_gptj(T* head, const float* cos, const float* sin, int64_t rotary,
                             const Made& made) {
  for_vectors(0, rotary, [=](auto whole, int64_t i, int64_t n) OPTEST_LAMBDA {
    if constexpr (kAhead) ask_for_stream<2>(head + i);
    const F v = made(load_first<whole>(head + i, n), i);
    const F turned = fma(v, load(cos + i), neighbours(v) * load(sin + i));
    store_first<whole>(head + i, turned, n);
  });
}

template <bool kAhead, class T, class Made>
OPTEST_INLINE void turn(T* head, const float* cos, const float* sin, int64_t rotary, bool neox,
                        const Made& made) {
  if (neox) {
    turn_neox<kAhead>(head, cos, sin, rotary / 2, made);
  } else {
    turn_gptj<kAhead>(head, cos, sin, rotary, made);
  }
}

// `step` elements lie between one head and the next.
template <class T>
void turn_heads(void* first, int64_t heads, int64_t step, const float* cos, const float* sin,
                int64_t rotary, bool neox) {
  T* head = static_cast<T*>(first);
  const auto as_it_is = [](F v, int64_t) OPTEST_LAMBDA { return v; };
  for (int64_t h = 0; h < heads; ++h, head += step) {
    turn<true>(head, cos, sin, rotary, neox, as_it_is);
  }
}

template <class T>
OPTEST_INLINE float squares_of(const T* head, int64_t size) {
  F a{};
  F b{};
  int64_t i = 0;
  for (; i + kPair <= size; i += kPair) {
    ask_for_stream<2>(head + i);
    const Pair v = load_pair(head + i);
    a = fma(v.a, v.a, a);
    b = fma(v.b, v.b, b);
  }
  if (i < size) {
    const Pair v = load_pair_part(head + i, size - i);
    a = fma(v.a, v.a, a);
    b = fma(v.b, v.b, b);
  }
  return sum_of(a + b);
}

// RMSNorm of each head, then its turn, rounded once; there are weights for whole vectors. Factors of some
// heads are found together, so that none waits for the root of another.
template <class T>
void norm_and_turn_heads(void* first, int64_t heads, int64_t step, const float* cos, const float* sin,
                         int64_t rotary, bool neox, const float* weight, int64_t size, float eps) {
  constexpr int64_t kTogether = 16;
  float factors[kTogether];
  T* head = static_cast<T*>(first);
  for (int64_t begin = 0; begin < heads; begin += kTogether) {
    const int64_t some = heads - begin < kTogether ? heads - begin : kTogether;
    for (int64_t h = 0; h < some; ++h) factors[h] = squares_of(head + h * step, size);
    for (int64_t h = 0; h < some; ++h) {
      factors[h] = 1.0f / std::sqrt(factors[h] / static_cast<float>(size) + eps);
    }
    for (int64_t h = 0; h < some; ++h, head += step) {
      const F factor = splat(factors[h]);
      const auto normed = [=](F v, int64_t i) OPTEST_LAMBDA {
        return v * factor * load(weight + i);
      };
      turn<false>(head, cos, sin, rotary, neox, normed);
      for_vectors(rotary, size, [=](auto whole, int64_t i, int64_t n) OPTEST_LAMBDA {
        store_first<whole>(head + i, normed(load_first<whole>(head + i, n), i), n);
      });
    }
  }
}
