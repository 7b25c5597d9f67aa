// Two tensors of one shape and any strides, as runs along their last dimension. Dimensions that follow
// on from each other in both tensors are one.
#pragma once

#include "optest/pair_run.h"
#include "optest/tensor.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace optest {

class Walk {
 public:
  Walk(const Tensor& a, const Tensor& b)
      : a_(static_cast<const char*>(a.data_ptr())), b_(static_cast<const char*>(b.data_ptr())) {
    const int64_t size = static_cast<int64_t>(a.element_size());
    for (int64_t i = 0; i < a.dim(); ++i) {
      add({a.size(i), a.stride(i) * size, b.stride(i) * size});
    }
    if (dims_.empty()) dims_.push_back({1, size, size});
  }

  // Calls body(run) for the elements begin to end, counted in row-major order.
  template <class Body>
  void runs(int64_t begin, int64_t end, const Body& body) const {
    const Dim& last = dims_.back();
    Row row = row_of(begin / last.size);
    for (int64_t column = begin % last.size; begin < end; column = 0) {
      const int64_t n = std::min(last.size - column, end - begin);
      PairRun run{row.a + column * last.a, row.b + column * last.b, last.a, last.b, n,
                  last.size - column - n};
      begin += n;
      if (begin < end) {
        advance(&row);
        run.a_next = row.a - run.a;
        run.b_next = row.b - run.b;
      }
      body(run);
    }
  }

 private:
  static constexpr size_t kMostDims = 64;  // as many as torch has

  // Where a run of the last dimension begins; `index` in the dimensions before it.
  struct Row {
    const char* a;
    const char* b;
    int64_t index[kMostDims];
  };

  Row row_of(int64_t number) const {
    Row row;
    row.a = a_;
    row.b = b_;
    for (size_t i = dims_.size() - 1; i-- > 0; number /= dims_[i].size) {
      row.index[i] = number % dims_[i].size;
      row.a += row.index[i] * dims_[i].a;
      row.b += row.index[i] * dims_[i].b;
    }
    return row;
  }

  // To the next one, without the divisions that finding a row takes.
  void advance(Row* row) const {
    for (size_t i = dims_.size() - 1; i-- > 0;) {
      row->a += dims_[i].a;
      row->b += dims_[i].b;
      if (++row->index[i] < dims_[i].size) return;
      row->a -= dims_[i].size * dims_[i].a;
      row->b -= dims_[i].size * dims_[i].b;
      row->index[i] = 0;
    }
  }

  struct Dim {
    int64_t size;
    int64_t a;  // bytes
    int64_t b;
  };

  void add(const Dim& dim) {
    if (!dims_.empty() && dims_.back().a == dim.a * dim.size && dims_.back().b == dim.b * dim.size) {
      dims_.back() = {dims_.back().size * dim.size, dim.a, dim.b};
    } else {
      dims_.push_back(dim);
    }
  }

  const char* a_;
  const char* b_;
  std::vector<Dim> dims_;
};

}  // namespace optest
