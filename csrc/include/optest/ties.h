// Whether the picks of a top-k differ from the golden's by the order of ties alone.
#pragma once

#include "optest/types.h"

#include <cstdint>
#include <cstring>

namespace optest {

// One row of k indices and values, at steps in bytes.
struct Picks {
  const char* indices;
  const char* values;
  int64_t index_step;
  int64_t value_step;
};

// Bits of a float dtype, whose magnitudes order as the values do.
template <class T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Type = uint32_t;
  static constexpr int64_t kInfinity = 0x7f800000;
};
template <>
struct FloatBits<Bf16> {
  using Type = uint16_t;
  static constexpr int64_t kInfinity = 0x7f80;
};
template <>
struct FloatBits<Fp16> {
  using Type = uint16_t;
  static constexpr int64_t kInfinity = 0x7c00;
};

// Index is an integer of the indices' size, T the dtype of the values.
template <class Index, class T>
class TiedRow {
 public:
  TiedRow(const Picks& actual, const Picks& expected, int64_t k, bool descending)
      : actual_(actual), expected_(expected), k_(k), descending_(descending) {}

  // False also where telling would take long: then the row is to be judged as any other.
  bool tied() {
    for (int64_t i = 0; i < k_; ++i) {
      if (index(actual_, i) == index(expected_, i)) continue;
      if (apart_ == kMost || !fits(i)) return false;
      places_[apart_++] = i;
    }
    uint64_t used = 0;
    for (int n = 0; n < apart_; ++n) {
      const int partner = partner_of(places_[n], used);
      if (partner < 0) return false;
      used |= uint64_t{1} << partner;
    }
    return true;
  }

 private:
  using Bits = typename FloatBits<T>::Type;
  static constexpr int kMost = 64;
  static constexpr int64_t kSign = int64_t{1} << (8 * sizeof(Bits) - 1);
  static constexpr int64_t kNan = -kSign - 1;  // below every value's order

  static Index index(const Picks& row, int64_t i) {
    Index found;
    std::memcpy(&found, row.indices + i * row.index_step, sizeof found);
    return found;
  }
  static Bits value(const Picks& row, int64_t i) {
    Bits found;
    std::memcpy(&found, row.values + i * row.value_step, sizeof found);
    return found;
  }
  // A number that orders as the value does, zeros alike.
  static int64_t order(Bits bits) {
    const int64_t magnitude = bits & (kSign - 1);
    if (magnitude > FloatBits<T>::kInfinity) return kNan;
    return bits & kSign ? -magnitude : magnitude;
  }

  bool in_order(Bits first, Bits second) const {
    const int64_t one = order(first), other = order(second);
    return one != kNan && other != kNan && (descending_ ? one >= other : one <= other);
  }

  // The value is a number, and in order with those beside it.
  bool fits(int64_t i) const {
    const Bits own = value(actual_, i);
    return in_order(own, own) && (i == 0 || in_order(value(actual_, i - 1), own)) &&
           (i + 1 == k_ || in_order(own, value(actual_, i + 1)));
  }

  // Of the places that differ, an unused one where the golden has what stands at `place`.
  int partner_of(int64_t place, uint64_t used) const {
    for (int n = 0; n < apart_; ++n) {
      if (used >> n & 1) continue;
      const int64_t other = places_[n];
      if (index(expected_, other) == index(actual_, place) &&
          value(expected_, other) == value(actual_, place)) {
        return n;
      }
    }
    return -1;
  }

  const Picks actual_;
  const Picks expected_;
  const int64_t k_;
  const bool descending_;
  int apart_ = 0;
  int64_t places_[kMost];
};

}  // namespace optest
