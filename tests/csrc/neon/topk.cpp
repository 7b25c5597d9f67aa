// The k largest of rows against a sort: of equal numbers the first, NaN above all.

#include "check.h"
#include "optest/picked_room.h"

#define OPTEST_KERNELS "../../topk_kernels.inl"
#include "optest/each_isa.h"

using namespace check;
namespace neon = optest::neon;

// Positions of the best k, best first.
template <class T>
std::vector<int32_t> best_of(const Room<T>& x, int64_t k) {
  std::vector<int32_t> order(static_cast<size_t>(x.size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  const auto rank = [&](int32_t i) {
    const double value = wide(x[i]);
    return std::isnan(value) ? HUGE_VAL : std::isinf(value) ? std::copysign(1e300, value) : value;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](int32_t a, int32_t b) { return rank(a) > rank(b); });
  order.resize(static_cast<size_t>(k));
  return order;
}

enum class Kind { random, ties, rising, special };

template <class T>
Room<T> scores(Random& random, int64_t n, Kind kind) {
  Room<T> x = numbers<T>(random, n, 3.0);
  for (int64_t i = 0; i < n; ++i) {
    if (kind == Kind::ties) x[i] = narrow_to<T>(static_cast<double>(random.below(5) - 2) * 0.5);
    if (kind == Kind::rising) x[i] = narrow_to<T>(static_cast<double>(i) - 20.0);
  }
  if (kind == Kind::special) {
    x[random.below(n)] = narrow_to<T>(-0.0);
    for (const double value : {HUGE_VAL, std::nan(""), -HUGE_VAL, 0.0}) {
      x[random.below(n)] = narrow_to<T>(value);
    }
  }
  return x;
}

template <class T>
void check_row(Verdict& verdict, const Room<T>& x, int64_t n, int64_t k) {
  optest::PickedRoom room;
  Room<int32_t> ids(k);
  neon::topk_row<T>(x.data(), n, k, &room, ids.data());
  if (n <= k) {
    for (int64_t j = 0; j < k; ++j) {
      verdict.equal("ids of a short row", ids[j], j < n ? static_cast<int32_t>(j) : -1);
    }
    return;
  }
  std::vector<int32_t> want = best_of(x, k);  // kernels give them in any order
  std::sort(want.begin(), want.end());
  std::sort(ids.data(), ids.data() + k);
  verdict.same("ids", ids.data(), want.data(), k);
}

template <class T>
void check_topk(T) {
  Verdict verdict(std::string("topk_row ") + kName<T>);
  Random random(21);
  for (const Kind kind : {Kind::random, Kind::ties, Kind::rising, Kind::special}) {
    for (const int64_t n : kLengths) {
      for (const int64_t k : {int64_t{1}, int64_t{2}, int64_t{7}, int64_t{64}, n - 1}) {
        if (k >= 1) check_row(verdict, scores<T>(random, n, kind), n, k);
      }
    }
    check_row(verdict, scores<T>(random, 5003, kind), 5003, 200);  // by a sampled threshold
  }
}

void check_lanes() {
  Verdict verdict("lanes, first_largest");
  for (int bits = 0; bits < 16; ++bits) {
    int32_t lanes[4];
    for (int i = 0; i < 4; ++i) lanes[i] = bits >> i & 1 ? -6 : -7;
    const neon::I keys = neon::load_raw<neon::I>(lanes);
    verdict.equal("lanes_above keys", neon::lanes_above(keys, -7), bits);
    const neon::F values = __builtin_convertvector(keys, neon::F);
    verdict.equal("lanes_above values", neon::lanes_above(values, -7.0f), bits);
    verdict.equal("lanes_above NaN", neon::lanes_above(values, std::nanf("")), 15);
    const neon::F kept = neon::only(values, static_cast<uint32_t>(bits));
    int32_t packed[8] = {};
    neon::pack(packed, keys, static_cast<uint32_t>(bits));
    for (int i = 0, at = 0; i < 4; ++i) {
      verdict.equal("only", kept[i], bits >> i & 1 ? -6.0f : 0.0f);
      if (bits >> i & 1) verdict.equal("pack", packed[at++], lanes[i]);
    }
  }
  int32_t keys[64];
  for (int at = 0; at < 64; ++at) {
    for (int i = 0; i < 64; ++i) keys[i] = i == at || i == 63 ? 7 : -i;
    verdict.equal("first_largest", neon::first_largest(keys, 16), at);
  }
}

int main() {
  check_lanes();
  for_dtypes([](auto like) { check_topk(like); });
  return exit_code();
}
