// Canary bytes: what lies beside a block of memory, and must lie there still when one looks again.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace optest {

// What was found in a zone, as offsets from its first byte; nothing where `count` is 0.
struct Change {
  size_t first = 0;
  size_t last = 0;
  size_t count = 0;
};

// The pattern of one block. Every 16 bits of it are NaN in bf16 and fp16, every 32 in fp32 and every
// 64 in fp64, so that a kernel which reads it and uses what it read shows in its result; none equals
// 0x7F7F or 0xFFFF, the poisons. It differs from block to block and from place to place, so that a
// kernel which copies too much does not put one canary where an equal one was.
class Canary {
 public:
  explicit Canary(const void* block) : start_(mixed(reinterpret_cast<uintptr_t>(block))) {}

  void fill(char* zone, size_t size) const {
    size_t at = 0;
    for (; at + kLine <= size; at += kLine) {
      const Line line = line_at(at);
      std::memcpy(zone + at, line.words, kLine);
    }
    const Line rest = line_at(at);
    std::memcpy(zone + at, rest.words, size - at);
  }

  Change compare(const char* zone, size_t size) const {
    Line different{};
    size_t at = 0;
    for (; at + kLine <= size; at += kLine) {
      const Line whole = line_at(at);
      Line seen;
      std::memcpy(seen.words, zone + at, kLine);
      for (size_t i = 0; i < kWords; ++i) different.words[i] |= seen.words[i] ^ whole.words[i];
    }
    uint64_t any = 0;
    for (const uint64_t word : different.words) any |= word;
    const Line rest = line_at(at);
    const bool is_whole = any == 0 && std::memcmp(zone + at, rest.words, size - at) == 0;
    return is_whole ? Change{} : byte_by_byte(zone, size);
  }

 private:
  // A number that is known at compile time makes vectors of the loops over a line's words.
  static constexpr size_t kWords = 8;
  static constexpr size_t kLine = kWords * sizeof(uint64_t);

  struct Line {
    uint64_t words[kWords];
  };

  static constexpr uint64_t kNan = 0x7FF07FC07FC07FC0;
  static constexpr uint64_t kVaries = 0x800E803E803E803E;
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;

  static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9;
    return (x ^ (x >> 29)) * 0x94D049BB133111EB;
  }

  Line line_at(size_t at) const {
    Line line;
    const uint64_t first = start_ + at * kStep;
    for (size_t i = 0; i < kWords; ++i) line.words[i] = kNan | ((first + i * kStep) & kVaries);
    return line;
  }

  Change byte_by_byte(const char* zone, size_t size) const {
    Change found;
    for (size_t at = 0; at < size; at += kLine) {
      const Line whole = line_at(at);
      const auto* const expected = reinterpret_cast<const char*>(whole.words);
      for (size_t i = 0; i < std::min(kLine, size - at); ++i) {
        if (zone[at + i] == expected[i]) continue;
        if (found.count++ == 0) found.first = at + i;
        found.last = at + i;
      }
    }
    return found;
  }

  uint64_t start_;
};

}  // namespace optest
