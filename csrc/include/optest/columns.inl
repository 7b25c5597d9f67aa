// Numbers that belong to the columns of rows, such as the weight of a norm. Read once per instruction
// set, after vec.inl.

// Elements that the numbers of n columns must have room for.
inline int64_t columns_room(int64_t n) { return (n + kPair - 1) / kPair * kPair; }

// Every NaN a plain one (see round_to_bf16).
OPTEST_INLINE F plain_nan(F value) {
  return choose(exceeds((U)value & kAbs, kInf), splat(NAN), value);
}

// kPair numbers of dtype W as the Columns of rows of T.
template <class T, class W>
OPTEST_INLINE void order_pair(const W* from, float* columns) {
  if constexpr (kSplitsEvenOdd<T> == kSplitsEvenOdd<W>) {
    const Pair both = load_pair(from);
    store_raw(columns, plain_nan(both.a));
    store_raw(columns + kLanes, plain_nan(both.b));
  } else {
    float in_turn[kPair];
    store_raw(in_turn, plain_nan(load(from)));
    store_raw(in_turn + kLanes, plain_nan(load(from + kLanes)));
    for (int64_t i = 0; i < kPair; ++i) columns[order_as<T>(i)] = in_turn[i];
  }
}

// n numbers; what is left of the last pair is zero.
template <class T, class W>
void order_columns(const void* numbers, float* columns, int64_t n) {
  const W* const from = static_cast<const W*>(numbers);
  int64_t i = 0;
  for (; i + kPair <= n; i += kPair) order_pair<T>(from + i, columns + i);
  if (i == n) return;
  W padded[kPair] = {};
  std::memcpy(padded, from + i, static_cast<size_t>(n - i) * sizeof(W));
  order_pair<T>(padded, columns + i);
}
