// Which state of a pool each sequence of a batch has.
#pragma once

#include "optest/tensor.h"

#include <cstdint>

namespace optest {

// slots [sequences] int32, below `count`; negative ones are padding.
inline const int32_t* checked_slots(const Tensor& slots, int64_t sequences, int64_t count) {
  check_dtype("slots", slots, ScalarType::Int);
  check(slots.dim() == 1 && slots.size(0) == sequences && slots.is_contiguous(),
        "slots has shape ", shape_of(slots), ", expected a contiguous [", sequences, "]");
  const auto* const at = static_cast<const int32_t*>(slots.data_ptr());
  for (int64_t i = 0; i < sequences; ++i) {
    check(at[i] < count, "slots holds ", at[i], ", expected up to ", count - 1);
  }
  return at;
}

}  // namespace optest
