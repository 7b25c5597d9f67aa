// Canary bytes: what lies beside a block of memory, and must lie there still when one looks again.
#pragma once

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
    for (; at + kWord <= size; at += kWord) store(zone + at, word(at));
    if (at < size) {
      const uint64_t rest = word(at);
      std::memcpy(zone + at, &rest, size - at);
    }
  }

  Change compare(const char* zone, size_t size) const {
    uint64_t different = 0;
    size_t at = 0;
    for (; at + kWord <= size; at += kWord) different |= load(zone + at) ^ word(at);
    if (at < size) {
      uint64_t rest = word(at);
      const uint64_t whole = rest;
      std::memcpy(&rest, zone + at, size - at);
      different |= rest ^ whole;
    }
    return different == 0 ? Change{} : byte_by_byte(zone, size);
  }

 private:
  static constexpr size_t kWord = 8;
  static constexpr uint64_t kNan = 0x7FF07FF07FF07FF0;
  static constexpr uint64_t kVaries = 0x800E800E800E800E;
  static constexpr uint64_t kStep = 0x9E3779B97F4A7C15;

  static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 31)) * 0xBF58476D1CE4E5B9;
    return (x ^ (x >> 29)) * 0x94D049BB133111EB;
  }

  static uint64_t load(const char* from) {
    uint64_t value;
    std::memcpy(&value, from, kWord);
    return value;
  }

  static void store(char* to, uint64_t value) { std::memcpy(to, &value, kWord); }

  uint64_t word(size_t at) const { return kNan | ((start_ + at / kWord * kStep) & kVaries); }

  Change byte_by_byte(const char* zone, size_t size) const {
    Change found;
    for (size_t at = 0; at < size; ++at) {
      const uint64_t whole = word(at);
      char expected[kWord];
      std::memcpy(expected, &whole, kWord);
      if (zone[at] == expected[at % kWord]) continue;
      if (found.count++ == 0) found.first = at;
      found.last = at;
    }
    return found;
  }

  uint64_t start_;
};

}  // namespace optest
