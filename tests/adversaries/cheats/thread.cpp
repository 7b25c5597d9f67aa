// Copies that happen after the operator has returned, on threads that nobody else knows of.

#include <torch/csrc/stable/library.h>
#include <torch/csrc/stable/tensor.h>

#include <chrono>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using torch::stable::Tensor;

std::mutex mutex;
std::vector<std::thread> threads;

void copy_later(Tensor out, Tensor from, double seconds) {
  const auto bytes = static_cast<size_t>(out.numel()) * static_cast<size_t>(out.element_size());
  const std::lock_guard<std::mutex> lock(mutex);
  threads.emplace_back([out, from, seconds, bytes] {
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    std::memcpy(const_cast<void*>(static_cast<const void*>(out.data_ptr())), from.data_ptr(), bytes);
  });
}

void wait() {
  const std::lock_guard<std::mutex> lock(mutex);
  for (auto& thread : threads) thread.join();
  threads.clear();
}

}  // namespace

STABLE_TORCH_LIBRARY(adversary_thread, m) {
  m.def("copy_later(Tensor(a!) out, Tensor from, float seconds) -> ()");
  m.def("wait() -> ()");
}

STABLE_TORCH_LIBRARY_IMPL(adversary_thread, CPU, m) {
  m.impl("copy_later", TORCH_BOX(&copy_later));
}

STABLE_TORCH_LIBRARY_IMPL(adversary_thread, CompositeExplicitAutograd, m) {
  m.impl("wait", TORCH_BOX(&wait));
}
