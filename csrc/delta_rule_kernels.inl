// The gated delta rule of one head of one sequence: columns of its state do not depend on each other, and
// some of them stay in the first cache from token to token.

#include "optest/vec.inl"

// kVectors of columns from `column` on, or, with kVectors 1, the `n` that are left.
template <class T, int kVectors>
OPTEST_INLINE void delta_columns(const DeltaHead& head, int64_t column, int64_t n) {
  const auto read = [&](const float* from) OPTEST_LAMBDA {
    return n == kLanes ? load(from) : load_part(from, n);
  };
  const auto write = [&](float* to, F value) OPTEST_LAMBDA {
    if (n == kLanes) {
      store(to, value);
    } else {
      store_part(to, value, n);
    }
  };
  for (int64_t t = 0; t < head.tokens; ++t) {
    float* const key = head.room;
    float* const query = head.room + head.key_size;
    widen(static_cast<const T*>(head.k) + t * head.k_token, head.key_size, key);
    widen(static_cast<const T*>(head.q) + t * head.q_token, head.key_size, query);
    const F decay = splat(std::exp(head.g[t * head.gate_token]));
    float* const state = head.state + column;
    F held[kVectors] = {};
    for (int64_t row = 0; row < head.key_size; ++row) {
      const F by = splat(key[row]);
      for (int i = 0; i < kVectors; ++i) {
        held[i] = fma(by, read(state + row * head.value_size + i * kLanes), held[i]);
      }
    }
    const T* const v = static_cast<const T*>(head.v) + t * head.v_token + column;
    F delta[kVectors];
    F sum[kVectors] = {};
    for (int i = 0; i < kVectors; ++i) {
      const F value = n == kLanes ? load(v + i * kLanes) : load_part(v, n);
      delta[i] = (value - held[i] * decay) * splat(head.beta[t * head.gate_token]);
    }
    for (int64_t row = 0; row < head.key_size; ++row) {
      const F by = splat(key[row]);
      const F of = splat(query[row]);
      for (int i = 0; i < kVectors; ++i) {
        float* const at = state + row * head.value_size + i * kLanes;
        const F now = fma(by, delta[i], read(at) * decay);
        write(at, now);
        sum[i] = fma(of, now, sum[i]);
      }
    }
    T* const out = static_cast<T*>(head.out) + t * head.out_token + column;
    for (int i = 0; i < kVectors; ++i) store_part(out + i * kLanes, sum[i] * splat(head.scale), n);
  }
}

template <class T>
void delta_head(const DeltaHead& head) {
  constexpr int kMost = 8;
  int64_t column = 0;
  for (; column + kMost * kLanes <= head.value_size; column += kMost * kLanes) {
    delta_columns<T, kMost>(head, column, kLanes);
  }
  for (; column < head.value_size; column += kLanes) {
    const int64_t left = head.value_size - column;
    delta_columns<T, 1>(head, column, left < kLanes ? left : kLanes);
  }
}
