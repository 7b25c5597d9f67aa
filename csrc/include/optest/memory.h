// When to write past the caches, and how to end it.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace optest {

// Bytes of the last-level cache as the system reports it; 32 MiB where it does not.
inline int64_t last_level_cache_bytes() {
  static const int64_t bytes = [] {
    long reported = 0;
#if defined(_SC_LEVEL3_CACHE_SIZE)
    reported = sysconf(_SC_LEVEL3_CACHE_SIZE);
#endif
    return reported > 0 ? static_cast<int64_t>(reported) : int64_t{32} << 20;
  }();
  return bytes;
}

// An output of `bytes` bytes goes past the caches where they could not keep it for its reader: a line
// written whole need not be read first, which saves a third of a copy's traffic.
inline bool goes_past_caches(int64_t bytes) { return bytes > last_level_cache_bytes() / 4; }

// Copies a multiple of 16 bytes to where such begin.
inline void stream_past_caches(void* to, const void* from, int64_t bytes) {
#if defined(__x86_64__)
  for (int64_t i = 0; i < bytes; i += 16) {
    const auto* const source = reinterpret_cast<const __m128i*>(static_cast<const char*>(from) + i);
    _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<char*>(to) + i), _mm_loadu_si128(source));
  }
#else
  std::memcpy(to, from, static_cast<size_t>(bytes));
#endif
}

// Makes what was written past the caches visible to other threads.
inline void finish_stream() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace optest
