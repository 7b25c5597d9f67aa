// The border between torch's tensors and kernels that know only pointers: checks whose messages name
// the argument, the value and what was expected, and views of a tensor as rows.
#pragma once

#include "optest/abi.h"
#include "optest/types.h"

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>
#include <torch/headeronly/core/ScalarType.h>

#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace optest {

using torch::headeronly::ScalarType;
using torch::stable::Tensor;

// Raised as ValueError in Python.
template <class... Parts>
[[noreturn]] void fail(const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw std::invalid_argument(text.str());
}

template <class... Parts>
void check(bool holds, const Parts&... parts) {
  if (!holds) fail(parts...);
}

inline std::string shape_of(const Tensor& tensor) {
  std::string text = "[";
  for (int64_t i = 0; i < tensor.dim(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(tensor.size(i));
  }
  return text + "]";
}

inline bool same_shape(const Tensor& a, const Tensor& b) {
  if (a.dim() != b.dim()) return false;
  for (int64_t i = 0; i < a.dim(); ++i) {
    if (a.size(i) != b.size(i)) return false;
  }
  return true;
}

inline void check_same_shape(const char* name, const Tensor& tensor, const Tensor& like) {
  check(same_shape(tensor, like), name, " has shape ", shape_of(tensor), ", expected ",
        shape_of(like));
}

inline void check_dtype(const char* name, const Tensor& tensor, ScalarType expected) {
  check(tensor.scalar_type() == expected, name, " has dtype ",
        torch::headeronly::toString(tensor.scalar_type()), ", expected ",
        torch::headeronly::toString(expected));
}

// What body(T{}) gives, T being the kernels' own word for the dtype of a tensor: one of those that the
// kernels read, in fp32 inside.
template <class Body>
auto by_float_dtype(const char* name, const Tensor& tensor, const Body& body) {
  switch (tensor.scalar_type()) {
    case ScalarType::BFloat16:
      return body(Bf16{});
    case ScalarType::Half:
      return body(Fp16{});
    case ScalarType::Float:
      return body(float{});
    default:
      fail(name, " has dtype ", torch::headeronly::toString(tensor.scalar_type()),
           ", expected BFloat16, Half or Float");
  }
}

// The same of one that the kernels write, of 8 bits.
template <class Body>
auto by_quant_dtype(const char* name, const Tensor& tensor, const Body& body) {
  switch (tensor.scalar_type()) {
    case ScalarType::Float8_e4m3fn:
      return body(E4m3fn{});
    case ScalarType::Float8_e4m3fnuz:
      return body(E4m3fnuz{});
    case ScalarType::Char:
      return body(int8_t{});
    default:
      fail(name, " has dtype ", torch::headeronly::toString(tensor.scalar_type()),
           ", expected Float8_e4m3fn, Float8_e4m3fnuz or Char");
  }
}

inline void check_float_dtype(const char* name, const Tensor& tensor) {
  by_float_dtype(name, tensor, [](auto) {});
}

// A 0-dim tensor is dense.
inline void check_dense_last(const char* name, const Tensor& tensor) {
  const int64_t last = tensor.dim() - 1;
  if (last < 0 || tensor.numel() == 0) return;
  check(tensor.size(last) == 1 || tensor.stride(last) == 1, name, " has stride ",
        tensor.stride(last), " in its last dimension, expected 1: make it contiguous there");
}

// A [.., length] tensor as rows of adjacent elements: leading dimensions may have any stride.
class Rows {
 public:
  // Throws where the last dimension is not dense. A 0-dim tensor is one row of one element.
  Rows(const char* name, const Tensor& tensor)
      : Rows(tensor) {
    check_dense_last(name, tensor);
    for (int64_t i = tensor.dim() - 2; i >= 0; --i) {
      add_outer(tensor.size(i), tensor.stride(i) * element_bytes_);
    }
  }

  // All elements of a contiguous tensor as one row.
  static Rows whole(const Tensor& tensor) {
    Rows rows(tensor);
    rows.length_ = tensor.numel();
    return rows;
  }

  int64_t count() const { return count_; }
  int64_t length() const { return length_; }
  int64_t element_bytes() const { return element_bytes_; }
  int64_t row_bytes() const { return length_ * element_bytes_; }
  int64_t bytes() const { return count_ * row_bytes(); }

  char* row(int64_t index) const {
    if (outer_.size() <= 1) return data_ + (outer_.empty() ? 0 : index * outer_[0].step);
    char* at = data_;
    for (const Outer& dim : outer_) {
      at += index % dim.size * dim.step;
      index /= dim.size;
    }
    return at;
  }

  char* element(int64_t row_index, int64_t column) const {
    return row(row_index) + column * element_bytes_;
  }

 private:
  explicit Rows(const Tensor& tensor)
      : length_(tensor.dim() == 0 ? 1 : tensor.size(tensor.dim() - 1)),
        element_bytes_(static_cast<int64_t>(tensor.element_size())),
        data_(static_cast<char*>(tensor.data_ptr())) {}

  struct Outer {
    int64_t size;
    int64_t step;  // bytes
  };

  // Innermost first; a dimension that continues the one inside it is merged with it.
  void add_outer(int64_t size, int64_t step) {
    count_ *= size;
    if (size == 1) return;
    if (!outer_.empty() && step == outer_.back().size * outer_.back().step) {
      outer_.back().size *= size;
    } else {
      outer_.push_back({size, step});
    }
  }

  int64_t length_;
  int64_t element_bytes_;
  char* data_;
  int64_t count_ = 1;
  std::vector<Outer> outer_;
};

}  // namespace optest
