// A causal convolution's step for some columns of one token, fp32 inside.

#include "activation_kernels.inl"

// weight [columns][width] as fp32 [width][columns]; of four 16-bit taps a column is one word.
template <class T>
void transpose_taps(const void* weight, int64_t columns, int64_t width, float* to) {
  const T* const from = static_cast<const T*>(weight);
  int64_t c = 0;
  if constexpr (sizeof(T) == 2) {
    typedef uint64_t Words __attribute__((vector_size(kLanes * 8)));
    for (; width == 4 && c + kLanes <= columns; c += kLanes) {
      const Words words = load_raw<Words>(from + c * 4);
      for (int64_t j = 0; j < 4; ++j) {
        const U tap = __builtin_convertvector(words >> (16 * j) & 0xffffu, U);
        T taps[kLanes];
        store_raw(taps, low_halves(tap));
        store(to + j * columns + c, load(taps));
      }
    }
  }
  for (; c < columns; ++c) {
    for (int64_t j = 0; j < width; ++j) {
      to[j * columns + c] = load_part(from + c * width + j, 1)[0];
    }
  }
}

template <class T>
void widen_row(const void* from, int64_t n, float* to) {
  widen(static_cast<const T*>(from), n, to);
}

// kLanes columns of one position of a state, or fewer; further apart than side by side, one by one.
template <class T>
struct Line {
  T* at;
  int64_t step;  // elements from a column to the next

  OPTEST_INLINE void read(int64_t n, T (&to)[kLanes]) const {
    if (step == 1 && n == kLanes) {
      std::memcpy(to, at, sizeof to);
    } else {
      for (int64_t i = 0; i < n; ++i) to[i] = at[i * step];
    }
  }
  OPTEST_INLINE void write(int64_t n, const T (&from)[kLanes]) const {
    if (step == 1 && n == kLanes) {
      std::memcpy(at, from, sizeof from);
    } else {
      for (int64_t i = 0; i < n; ++i) at[i * step] = from[i];
    }
  }
};

// The same of whole vectors of columns that lie side by side; returns how many were done.
template <class T, int kWidth>
OPTEST_INLINE int64_t conv_vectors(const T* x, T* state, int64_t position_step, const Taps& taps, T* y,
                                   int64_t n) {
  typedef std::conditional_t<sizeof(T) == 2, U16, U> Raw;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    F total = load(taps.bias + i);
    for (int j = 0; j + 1 < kWidth; ++j) {
      T* const at = state + j * position_step + i;
      total = fma(load(at), load(taps.weight + j * taps.apart + i), total);
      if (j > 0) store_raw(at - position_step, load_raw<Raw>(at));
    }
    total = fma(load(x + i), load(taps.weight + (kWidth - 1) * taps.apart + i), total);
    if (kWidth > 1) store_raw(state + (kWidth - 2) * position_step + i, load_raw<Raw>(x + i));
    store(y + i, taps.silu ? Silu<T>::of(total) : total);
  }
  return i;
}

// y of n columns; the state moves on by one position.
template <class T>
void conv_columns(const void* x, void* state, int64_t column_step, int64_t position_step,
                  const Taps& taps, void* y, int64_t n) {
  const T* const in = static_cast<const T*>(x);
  T* const held = static_cast<T*>(state);
  int64_t i = 0;
  if (taps.width == 4 && column_step == 1) {
    i = conv_vectors<T, 4>(in, held, position_step, taps, static_cast<T*>(y), n);
  }
  for (; i < n; i += kLanes) {
    const int64_t here = n - i < kLanes ? n - i : kLanes;
    const auto of_column = [&](const float* numbers) OPTEST_LAMBDA {
      return here == kLanes ? load(numbers + i) : load_part(numbers + i, here);
    };
    F total = of_column(taps.bias);
    T values[kLanes] = {};
    for (int64_t j = 0; j < taps.width; ++j) {
      if (j + 1 < taps.width) {
        const Line<T> line{held + i * column_step + j * position_step, column_step};
        line.read(here, values);
      } else {
        std::memcpy(values, in + i, static_cast<size_t>(here) * sizeof(T));
      }
      total = fma(load(values), of_column(taps.weight + j * taps.apart), total);
      if (j > 0) {
        const Line<T> before{held + i * column_step + (j - 1) * position_step, column_step};
        before.write(here, values);
      }
    }
    if (taps.silu) total = Silu<T>::of(total);
    store_part(static_cast<T*>(y) + i, total, here);
  }
}
