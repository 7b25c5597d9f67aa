// The oldest torch whose stable ABI the kernels may use. Comes before any header of torch.
#pragma once

#ifndef TORCH_TARGET_VERSION
#define TORCH_TARGET_VERSION 0x020a000000000000  // 2.10
#endif
