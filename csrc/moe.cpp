// Pairs of a token and an expert, sorted by expert and padded to blocks, as grouped GEMMs read them:
//
//     sorted_ids      [capacity] int32: token * topk + slot, ascending within an expert, experts ascending;
//                     each expert begins at a multiple of `block` and is filled up with m * topk, as is
//                     what lies behind the last one
//     sorted_weights  [capacity]: the pair's weight, 0 where padding is
//     block_experts   [capacity / block] int32: the expert of a block, -1 behind the last
//     total           [1] int32: entries up to the end of the last expert
//
// ids [m, topk] int32, weights [m, topk] bf16, fp16 or fp32, contiguous. An id outside 0 to experts - 1 is
// left out. Memory decides here, so that there is one compilation for all instruction sets.

#include <cstring>
#include <vector>

#include "optest/memory.h"
#include "optest/parallel.h"
#include "optest/tensor.h"

namespace optest {
namespace {

// What a thread counts and moves at a time: enough to be worth a hand-over.
constexpr int64_t kShortestPart = 8 * 1024;

struct Sorting {
  const int32_t* ids;
  int64_t pairs;
  int64_t experts;
  int64_t block;
  int64_t part;  // pairs that are counted together

  int64_t parts() const { return (pairs + part - 1) / part; }

  // Calls body(part) for all parts, on all threads.
  template <class Body>
  void each_part(const Body& body) const {
    parallel_pieces(parts(), 1, [&](int64_t first, int64_t last) {
      for (int64_t p = first; p < last; ++p) body(p);
    });
  }

  // Calls body(pair, expert) for the pairs of a part.
  template <class Body>
  void each_pair(int64_t p, const Body& body) const {
    const int64_t end = std::min(pairs, (p + 1) * part);
    for (int64_t i = p * part; i < end; ++i) {
      const auto expert = static_cast<uint32_t>(ids[i]);  // below zero is above them all
      if (expert < static_cast<uint64_t>(experts)) body(i, static_cast<int64_t>(expert));
    }
  }
};

struct Entries {
  int32_t* ids;
  int32_t* block_experts;
  int64_t capacity;
};

// Turns counts [parts, experts] into where each part's first pair of each expert goes; writes the blocks'
// experts and the padding's ids, calls pad(begin, end) for the padding. Returns the end of the last expert.
template <class Pad>
int64_t place(const Sorting& sorting, std::vector<int64_t>& counts, const Entries& to,
              const Pad& pad) {
  int64_t at = 0;
  const auto fill = [&](int64_t begin, int64_t end) {
    std::fill(to.ids + begin, to.ids + end, static_cast<int32_t>(sorting.pairs));
    pad(begin, end);
  };
  for (int64_t expert = 0; expert < sorting.experts; ++expert) {
    const int64_t begin = at;
    for (int64_t p = 0; p < sorting.parts(); ++p) {
      int64_t& count = counts[static_cast<size_t>(p * sorting.experts + expert)];
      const int64_t mine = count;
      count = at;
      at += mine;
    }
    const int64_t end = (at + sorting.block - 1) / sorting.block * sorting.block;
    fill(at, end);
    at = end;
    std::fill(to.block_experts + begin / sorting.block, to.block_experts + end / sorting.block,
              static_cast<int32_t>(expert));
  }
  fill(at, to.capacity);
  std::fill(to.block_experts + at / sorting.block, to.block_experts + to.capacity / sorting.block,
            -1);
  return at;
}

// Entries of one part on their way past the caches: a line of each expert's pairs is filled and then written
// whole. The lines of many experts in turn would otherwise be read and given up again before they are full.
// Weights are looked up then: they were asked for not long ago, and lines of them would not fit the first
// cache beside those of pairs.
template <class W>
class Outbox {
 public:
  Outbox(const Sorting& sorting, const int64_t* places, int32_t* ids, const W* from, W* sorted)
      : begins_(places, places + sorting.experts),
        ends_(begins_),
        lines_(begins_.size()),
        experts_(sorting.ids),
        weights_(from),
        ids_(ids),
        sorted_(sorted) {}

  void add(int64_t expert, int64_t pair) {
    const auto e = static_cast<size_t>(expert);
    const auto slot = static_cast<size_t>(ends_[e]++) % kLine;
    lines_[e].ids[slot] = static_cast<int32_t>(pair);
    if (slot + 1 == kLine) send(e);
  }

  // For pairs to come, once a line.
  void ask_ahead(int64_t pair) const {
    if (pair % kLine != 0) return;
    __builtin_prefetch(experts_ + pair + kAhead);
    __builtin_prefetch(weights_ + pair + kAhead);
  }

  void send_all() {
    for (size_t e = 0; e < lines_.size(); ++e) send(e);
    finish_stream();
  }

 private:
  static constexpr int64_t kLine = 16;
  static constexpr int64_t kAhead = 1024;

  struct alignas(64) Line {
    int32_t ids[kLine];
  };

  void send(size_t e) {
    const int64_t begin = begins_[e], count = ends_[e] - begin;
    const int32_t* const from = lines_[e].ids + begin % kLine;
    alignas(64) W weights[kLine];
    for (int64_t i = 0; i < count; ++i) weights[i] = weights_[from[i]];
    copy(ids_ + begin, from, count);
    copy(sorted_ + begin, weights, count);
    begins_[e] = ends_[e];
  }

  template <class E>
  static void copy(E* to, const E* from, int64_t n) {
    constexpr int64_t bytes = kLine * static_cast<int64_t>(sizeof(E));
    if (n < kLine) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(E));
    } else if (reinterpret_cast<uintptr_t>(to) % 16 == 0) {
      stream_past_caches(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
  }

  std::vector<int64_t> begins_;  // of what each expert's line holds
  std::vector<int64_t> ends_;
  std::vector<Line> lines_;
  const int32_t* experts_;  // of the pairs
  const W* weights_;
  int32_t* ids_;
  W* sorted_;
};

// W has the size of a weight.
template <class W>
int64_t sort_pairs(const Sorting& sorting, const Entries& to, const void* weights,
                   void* sorted_weights) {
  std::vector<int64_t> counts(static_cast<size_t>(sorting.parts() * sorting.experts));
  sorting.each_part([&](int64_t p) {
    int64_t* const mine = counts.data() + p * sorting.experts;
    sorting.each_pair(p, [&](int64_t, int64_t expert) { ++mine[expert]; });
  });
  const W* const from = static_cast<const W*>(weights);
  W* const sorted = static_cast<W*>(sorted_weights);
  const int64_t total = place(sorting, counts, to, [&](int64_t begin, int64_t end) {
    std::fill(sorted + begin, sorted + end, W{0});
  });
  const bool past_caches = goes_past_caches(to.capacity * static_cast<int64_t>(4 + sizeof(W)));
  sorting.each_part([&](int64_t p) {
    int64_t* const places = counts.data() + p * sorting.experts;
    if (past_caches) {
      Outbox<W> outbox(sorting, places, to.ids, from, sorted);
      sorting.each_pair(p, [&](int64_t pair, int64_t e) {
        outbox.ask_ahead(pair);
        outbox.add(e, pair);
      });
      outbox.send_all();
      return;
    }
    sorting.each_pair(p, [&](int64_t pair, int64_t e) {
      const int64_t at = places[e]++;
      to.ids[at] = static_cast<int32_t>(pair);
      sorted[at] = from[pair];
    });
  });
  return total;
}

void check_entries(const char* name, const Tensor& tensor, ScalarType dtype, int64_t length) {
  check_dtype(name, tensor, dtype);
  check(tensor.dim() == 1 && tensor.size(0) == length && tensor.is_contiguous(), name,
        " has shape ", shape_of(tensor), ", expected a contiguous [", length, "]");
}

void moe_sorting(Tensor sorted_ids, Tensor sorted_weights, Tensor block_experts, Tensor total,
                 Tensor ids, Tensor weights, int64_t experts, int64_t block) {
  check_dtype("ids", ids, ScalarType::Int);
  check_float_dtype("weights", weights);
  check(ids.dim() == 2 && ids.is_contiguous(), "ids has shape ", shape_of(ids),
        ", expected a contiguous [m, topk]");
  check_same_shape("weights", weights, ids);
  check(weights.is_contiguous(), "weights has strides, expected a contiguous tensor");
  check(experts >= 0, "experts is ", experts, ", expected 0 or more");
  check(block >= 1, "block is ", block, ", expected 1 or more");
  const int64_t pairs = ids.numel();
  const int64_t capacity = (pairs + std::min(pairs, experts) * (block - 1)) / block * block;
  check_entries("sorted_ids", sorted_ids, ScalarType::Int, capacity);
  check_entries("sorted_weights", sorted_weights, weights.scalar_type(), capacity);
  check_entries("block_experts", block_experts, ScalarType::Int, capacity / block);
  check_entries("total", total, ScalarType::Int, 1);
  const int64_t even = pairs / torch::stable::get_num_threads() + 1;
  const Sorting sorting{static_cast<const int32_t*>(ids.data_ptr()), pairs, experts, block,
                        std::max(even, kShortestPart)};
  const Entries to{static_cast<int32_t*>(sorted_ids.data_ptr()),
                   static_cast<int32_t*>(block_experts.data_ptr()), capacity};
  const auto sort = weights.element_size() == 2 ? &sort_pairs<uint16_t> : &sort_pairs<uint32_t>;
  const int64_t end = sort(sorting, to, weights.data_ptr(), sorted_weights.data_ptr());
  *static_cast<int32_t*>(total.data_ptr()) = static_cast<int32_t>(end);
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "moe_sorting(Tensor(a!) sorted_ids, Tensor(b!) sorted_weights, Tensor(c!) block_experts, "
      "Tensor(d!) total, Tensor ids, Tensor weights, int experts, int block) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("moe_sorting", TORCH_BOX(&optest::moe_sorting));
}
