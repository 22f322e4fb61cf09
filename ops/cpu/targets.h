#pragma once
// Which instruction sets Highway compiles the kernels for, chosen among at run time: plain C++,
// SSE4, AVX2 and AVX-512. SSSE3 would only increase the build time. Include before Highway.

#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS HWY_SSSE3
#endif
