// The numbers of columns in the order in which kernels take them. Comes after each_isa.h, whose kernels
// include columns.inl.
#pragma once

#include "check.h"

namespace check {

template <class T, class W>
Room<float> columns_for(const Room<W>& numbers) {
  Room<float> ordered(optest::neon::columns_room(numbers.size()));
  optest::neon::order_columns<T, W>(numbers.data(), ordered.data(), numbers.size());
  return ordered;
}

}  // namespace check
