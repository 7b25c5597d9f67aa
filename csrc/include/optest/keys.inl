// Choosing the largest of fp32 numbers: whole numbers that order as they do. Read once per instruction
// set, as vec.inl is.

#include "../../activation_kernels.inl"  // vec.inl, exponential, sigmoid

// No number has this key: an element that is not there, or is taken already.
constexpr int32_t kTaken = INT32_MIN;
constexpr int32_t kNanKey = INT32_MAX;

inline int64_t padded(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// NaN is above all numbers; zeros are equal.
OPTEST_INLINE I key_of(F value) {
  const I bits = (I)(value + 0.0f);
  const I key = bits ^ (bits >> 31 & 0x7fffffff);
  return exceeds((U)bits & kAbs, kInf) ? I{} + kNanKey : key;
}

OPTEST_INLINE float value_of(int32_t key) {
  const int32_t bits = key ^ (key >> 31 & 0x7fffffff);
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

OPTEST_INLINE I lane_numbers() {
  I numbers;
  for (int i = 0; i < kLanes; ++i) numbers[i] = i;
  return numbers;
}

template <class T>
OPTEST_INLINE F load_lanes(const T* from, int64_t lanes) {
  return lanes == kLanes ? load(from) : load_part(from, lanes);
}

// The first lanes as they are, the others 0, or taken.
OPTEST_INLINE F first_lanes(F value, int64_t lanes) {
  return lane_numbers() < static_cast<int32_t>(lanes) ? value : F{};
}
OPTEST_INLINE I first_keys(I keys, int64_t lanes) {
  return lane_numbers() < static_cast<int32_t>(lanes) ? keys : I{} + kTaken;
}

OPTEST_INLINE int32_t largest_key(I keys) {
#if defined(OPTEST_ISA_AVX512)
  return _mm512_reduce_max_epi32((__m512i)keys);
#endif
  int32_t largest = keys[0];
  for (int i = 1; i < kLanes; ++i) largest = keys[i] > largest ? keys[i] : largest;
  return largest;
}

OPTEST_INLINE int32_t smallest_key(I keys) { return ~largest_key(~keys); }

// Where the first of the largest of some vectors of keys stands.
OPTEST_INLINE int64_t first_largest(const int32_t* keys, int64_t vectors) {
  I best = load_raw<I>(keys);
  I where{};
  for (int64_t v = 1; v < vectors; ++v) {
    const I next = load_raw<I>(keys + v * kLanes);
    const I above = next > best;
    best = above ? next : best;
    where = above ? I{} + static_cast<int32_t>(v) : where;
  }
  const I place = where * kLanes + lane_numbers();
  return smallest_key(best == largest_key(best) ? place : I{} + INT32_MAX);
}

// Calls body(lanes, first) for the vectors of `n` elements: `lanes` of them from `first` on.
template <class Body>
OPTEST_INLINE void each_vector(int64_t n, const Body& body) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) body(int64_t{kLanes}, i);
  if (i < n) body(n - i, i);
}

// e^(w - largest) of k numbers, in place; returns the sum.
inline float exponentials(float* w, int64_t k, float largest) {
  F sum{};
  each_vector(k, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
    const F value = first_lanes(exponential<float>(load_lanes(w + i, lanes) - largest), lanes);
    std::memcpy(w + i, &value, static_cast<size_t>(lanes) * sizeof(float));
    sum += value;
  });
  return sum_of(sum);
}

template <class T>
float sum_of_exponentials(const T* x, int64_t n, float largest) {
  F sum{};
  each_vector(n, [&](int64_t lanes, int64_t i) OPTEST_LAMBDA {
    sum += first_lanes(exponential<float>(load_lanes(x + i, lanes) - largest), lanes);
  });
  return sum_of(sum);
}
