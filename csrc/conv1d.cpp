// One step of a depthwise causal convolution, fp32 inside and rounded once:
//
//     window = [state[slot], x];  y = act(bias + sum of window[j] * weight[j]);  state[slot] = window[1:]
//
// x and y [batch, dim], state [slots, dim, width - 1] of any strides (fast where dim lies side by side),
// weight [dim, width], bias [dim], all bf16, fp16 or fp32 alike; slots [batch] int32, all different, -1 for
// padding, of which y is 0.

#include <algorithm>
#include <cstdint>
#include <vector>

#include "optest/conv_taps.h"
#include "optest/parallel.h"
#include "optest/slots.h"
#include "optest/tensor.h"
#include "optest/types.h"

#define OPTEST_KERNELS "../../conv1d_kernels.inl"
#include "optest/each_isa.h"

namespace optest {
namespace {

// Columns that share the weights that were brought into order: long runs of memory, but work for all
// threads where there are few rows.
constexpr int64_t kColumns = 8192;
constexpr int64_t kColumnsOfFewRows = 1024;
constexpr int64_t kRows = 32;  // of a batch, at a time

struct Kernels {
  decltype(&portable::transpose_taps<float>) transpose_taps;
  decltype(&portable::widen_row<float>) widen_row;
  decltype(&portable::conv_columns<float>) conv_columns;
};

template <class T>
Kernels kernels_of() {
  return {OPTEST_SELECT(transpose_taps<T>), OPTEST_SELECT(widen_row<T>),
          OPTEST_SELECT(conv_columns<T>)};
}

Kernels kernels_for(const Tensor& x) {
  return by_float_dtype("x", x, [](auto element) { return kernels_of<decltype(element)>(); });
}

struct States {
  explicit States(const Tensor& state)
      : data(static_cast<char*>(state.data_ptr())),
        element(static_cast<int64_t>(state.element_size())),
        slot_bytes(state.stride(0) * element),
        column_step(state.stride(1)),
        position_step(state.stride(2)) {}

  char* at(int64_t slot, int64_t column) const {
    return data + slot * slot_bytes + column * column_step * element;
  }

  char* data;
  int64_t element;
  int64_t slot_bytes;
  int64_t column_step;    // elements
  int64_t position_step;  // elements
};

struct Step {
  Kernels kernels;
  Rows x;
  Rows y;
  States states;
  const char* weight;
  const char* bias;
  const int32_t* slots;
  int64_t width;
  bool silu;

  void run(int64_t column, int64_t n, int64_t begin, int64_t end) const {
    const int64_t element = x.element_bytes();
    std::vector<float> room(static_cast<size_t>((width + 1) * n));
    float* const biases = room.data() + width * n;
    kernels.transpose_taps(weight + column * width * element, n, width, room.data());
    kernels.widen_row(bias + column * element, n, biases);
    const Taps taps{room.data(), biases, n, width, silu};
    for (int64_t row = begin; row < end; ++row) {
      char* const to = y.element(row, column);
      if (slots[row] < 0) {
        std::memset(to, 0, static_cast<size_t>(n * element));
      } else {
        kernels.conv_columns(x.element(row, column), states.at(slots[row], column),
                             states.column_step, states.position_step, taps, to, n);
      }
    }
  }
};

void check_operands(const Tensor& y, const Tensor& x, const Tensor& state, const Tensor& weight,
                    const Tensor& bias) {
  check(x.dim() == 2, "x has shape ", shape_of(x), ", expected [batch, dim]");
  check_same_shape("y", y, x);
  const int64_t dim = x.size(1);
  check(weight.dim() == 2 && weight.size(0) == dim && weight.size(1) >= 1 &&
            weight.is_contiguous(),
        "weight has shape ", shape_of(weight), ", expected a contiguous [", dim, ", width]");
  check(bias.dim() == 1 && bias.size(0) == dim && bias.is_contiguous(), "bias has shape ",
        shape_of(bias), ", expected a contiguous [", dim, "]");
  check(state.dim() == 3 && state.size(1) == dim && state.size(2) == weight.size(1) - 1,
        "state has shape ", shape_of(state), ", expected [slots, ", dim, ", ",
        weight.size(1) - 1, "]");
  const ScalarType dtype = x.scalar_type();
  check_dtype("y", y, dtype);
  check_dtype("state", state, dtype);
  check_dtype("weight", weight, dtype);
  check_dtype("bias", bias, dtype);
}

void causal_conv1d_update(Tensor y, Tensor x, Tensor state, Tensor weight, Tensor bias,
                          Tensor slots, bool silu) {
  const Kernels kernels = kernels_for(x);
  check_operands(y, x, state, weight, bias);
  const int64_t batch = x.size(0);
  const int64_t dim = x.size(1);
  const Step step{kernels,
                  Rows("x", x),
                  Rows("y", y),
                  States(state),
                  static_cast<const char*>(weight.data_ptr()),
                  static_cast<const char*>(bias.data_ptr()),
                  checked_slots(slots, batch, state.size(0)),
                  weight.size(1),
                  silu};
  const int64_t columns = batch < kRows ? kColumnsOfFewRows : kColumns;
  const int64_t blocks = (dim + columns - 1) / columns;
  const int64_t chunks = (batch + kRows - 1) / kRows;
  // What a few KiB of a state take is not worth a hand-over.
  const int64_t piece = std::max<int64_t>(1, 8 / std::max<int64_t>(1, batch));
  parallel_pieces(blocks * chunks, piece, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % blocks * columns;
      const int64_t row = i / blocks * kRows;
      step.run(column, std::min(columns, dim - column), row, std::min(batch, row + kRows));
    }
  });
}

}  // namespace
}  // namespace optest

STABLE_TORCH_LIBRARY_FRAGMENT(optest, m) {
  m.def(
      "causal_conv1d_update(Tensor(a!) y, Tensor x, Tensor(b!) state, Tensor weight, Tensor bias, "
      "Tensor slots, bool silu) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(optest, CPU, m) {
  m.impl("causal_conv1d_update", TORCH_BOX(&optest::causal_conv1d_update));
}
