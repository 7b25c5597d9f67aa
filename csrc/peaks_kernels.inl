// Memory gone through as fast as the instruction set can: whole blocks of 8 vectors, nothing else.

#include "optest/vec.inl"

// Reads `bytes` bytes, a multiple of 8 vectors; the result depends on all of them.
inline uint32_t read_blocks(const char* from, int64_t bytes) {
  constexpr int64_t vector = sizeof(U);
  U a{}, b{}, c{}, d{};
  for (int64_t at = 0; at < bytes; at += 8 * vector) {
    a |= load_raw<U>(from + at) ^ load_raw<U>(from + at + 4 * vector);
    b |= load_raw<U>(from + at + vector) ^ load_raw<U>(from + at + 5 * vector);
    c |= load_raw<U>(from + at + 2 * vector) ^ load_raw<U>(from + at + 6 * vector);
    d |= load_raw<U>(from + at + 3 * vector) ^ load_raw<U>(from + at + 7 * vector);
  }
  const U all = a | b | c | d;
  uint32_t sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += all[i];
  return sum;
}

template <bool kPastCaches>
void copy_blocks(char* to, const char* from, int64_t bytes) {
  constexpr int64_t vector = sizeof(U);
  for (int64_t at = 0; at < bytes; at += 4 * vector) {
    const U a = load_raw<U>(from + at);
    const U b = load_raw<U>(from + at + vector);
    const U c = load_raw<U>(from + at + 2 * vector);
    const U d = load_raw<U>(from + at + 3 * vector);
    put<kPastCaches>(to + at, a);
    put<kPastCaches>(to + at + vector, b);
    put<kPastCaches>(to + at + 2 * vector, c);
    put<kPastCaches>(to + at + 3 * vector, d);
  }
}
