// Operators that touch memory outside their tensor, on purpose.

#define TORCH_TARGET_VERSION 0x020a000000000000

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/ops.h>
#include <torch/csrc/stable/tensor.h>

#include <cstdint>
#include <cstring>
#include <thread>

using torch::stable::Tensor;

int64_t raw_allocate(int64_t nbytes);
void raw_deallocate(int64_t address);

namespace {

volatile char* at(const Tensor& tensor, int64_t offset) {
  return static_cast<volatile char*>(const_cast<void*>(tensor.const_data_ptr())) + offset;
}

// Offsets are from the first byte of the tensor.
void put(Tensor tensor, int64_t offset, int64_t count, int64_t byte) {
  for (int64_t i = 0; i < count; ++i) *at(tensor, offset + i) = static_cast<char>(byte);
}

int64_t get(Tensor tensor, int64_t offset) { return *at(tensor, offset); }

void put_in_thread(Tensor tensor, int64_t offset) {
  std::thread([&] { *at(tensor, offset) = 1; }).join();
}

// Every worker of torch's pool reads its own tensor's end.
void read_ends(Tensor tensors, int64_t length) {
  torch::stable::parallel_for(0, tensors.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto address = static_cast<const int64_t*>(tensors.const_data_ptr())[i];
      *reinterpret_cast<volatile char*>(address + length);
    }
  });
}

// y = x, one element too many.
void copy_too_many(Tensor x, Tensor y) {
  std::memcpy(y.mutable_data_ptr(), x.const_data_ptr(),
              static_cast<size_t>(x.numel() + 1) * x.element_size());
}

}  // namespace

STABLE_TORCH_LIBRARY(overrun, m) {
  m.def("put(Tensor(a!) tensor, int offset, int count, int byte) -> ()");
  m.def("get(Tensor tensor, int offset) -> int");
  m.def("put_in_thread(Tensor(a!) tensor, int offset) -> ()");
  m.def("read_ends(Tensor tensors, int length) -> ()");
  m.def("raw_allocate(int nbytes) -> int");
  m.def("raw_deallocate(int address) -> ()");
  m.def("copy_too_many(Tensor x, Tensor(a!) y) -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(overrun, CPU, m) {
  m.impl("put", TORCH_BOX(&put));
  m.impl("get", TORCH_BOX(&get));
  m.impl("put_in_thread", TORCH_BOX(&put_in_thread));
  m.impl("read_ends", TORCH_BOX(&read_ends));
  m.impl("copy_too_many", TORCH_BOX(&copy_too_many));
}

STABLE_TORCH_LIBRARY_IMPL(overrun, CompositeExplicitAutograd, m) {
  m.impl("raw_allocate", TORCH_BOX(&raw_allocate));
  m.impl("raw_deallocate", TORCH_BOX(&raw_deallocate));
}
