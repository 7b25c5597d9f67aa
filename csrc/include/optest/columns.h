// A tensor of numbers, one for each column of rows, brought into the order and the width in which the
// kernels take it. Read after each_isa.h, whose kernels include columns.inl.
#pragma once

#include "optest/tensor.h"
#include "optest/types.h"

#include <vector>

namespace optest {

// For rows of T, from numbers of any dtype that the kernels read.
template <class T>
std::vector<float> columns_of(const char* name, const Tensor& numbers, int64_t length) {
  const auto order = by_float_dtype(name, numbers, [](auto element) {
    return OPTEST_SELECT(order_columns<T, decltype(element)>);
  });
  check(numbers.dim() == 1 && numbers.size(0) == length, name, " has shape ", shape_of(numbers),
        ", expected [", length, "], one for each column");
  check(numbers.is_contiguous(), name, " has strides, expected a contiguous tensor");
  const auto room = OPTEST_SELECT(columns_room);
  std::vector<float> columns(static_cast<size_t>(room(length)));
  order(numbers.data_ptr(), columns.data(), length);
  return columns;
}

}  // namespace optest
