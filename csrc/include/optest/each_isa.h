// Compiles the file that OPTEST_KERNELS names once for every instruction set of this machine's
// architecture: as optest::portable, and as optest::avx2 and optest::avx512, or optest::neon.
//
//     #define OPTEST_KERNELS "quant_kernels.inl"
//     #include "optest/each_isa.h"
//
// That file holds kernels only, no #include of a system header (it is read inside a namespace), and
// no header guard. OPTEST_SELECT(kernel) then picks the compilation at run time.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "optest/isa.h"
#include "optest/vendor.h"

#if defined(OPTEST_X86)
#include <immintrin.h>
#elif defined(OPTEST_NEON)
#include <arm_neon.h>
#endif

namespace optest::portable {
#include OPTEST_KERNELS
}

#if defined(OPTEST_NEON)
#define OPTEST_ISA_NEON 1
namespace optest::neon {
#include OPTEST_KERNELS
}
#undef OPTEST_ISA_NEON
#endif

#if defined(OPTEST_X86)

#define OPTEST_ISA_AVX2 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif
namespace optest::avx2 {
#include OPTEST_KERNELS
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef OPTEST_ISA_AVX2

#define OPTEST_ISA_AVX512 1
#if defined(__clang__)
#pragma clang attribute push( \
    __attribute__((target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif
namespace optest::avx512 {
#include OPTEST_KERNELS
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#undef OPTEST_ISA_AVX512

#endif  // OPTEST_X86

#undef OPTEST_KERNELS
