#include "resample.h"

#include <stddef.h>

const sa_kernels *sa_kernels_of(int32_t variant) {
  switch (variant) {
  case SA_SCALAR:
    return &sa_kernels_scalar;
#if defined(__x86_64__)
  case SA_SSE41:
    return __builtin_cpu_supports("sse4.1") && __builtin_cpu_supports("ssse3") ? &sa_kernels_sse41 : NULL;
  case SA_AVX2:
    return __builtin_cpu_supports("avx2") ? &sa_kernels_avx2 : NULL;
#endif
#if defined(__aarch64__)
  case SA_NEON:
    return &sa_kernels_neon;
#endif
  }
  return NULL;
}

int32_t sa_best_variant(void) {
  static const int32_t order[] = {SA_AVX2, SA_SSE41, SA_NEON};
  for (size_t i = 0; i < sizeof order / sizeof order[0]; i++)
    if (sa_kernels_of(order[i])) return order[i];
  return SA_SCALAR;
}
