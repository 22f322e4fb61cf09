#include "properties.h"

#include <cstring>

namespace cuda_on_cpu {

cudaDeviceProp limits_of_an_h100() {
  cudaDeviceProp p{};
  std::strcpy(p.name, "emulated");
  p.major = 9;
  p.multiProcessorCount = 132;
  p.totalGlobalMem = std::size_t{80} << 30;
  p.l2CacheSize = 50 << 20;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsPerMultiProcessor = 2048;
  p.maxBlocksPerMultiProcessor = 32;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.regsPerBlock = p.regsPerMultiprocessor = 65536;
  p.sharedMemPerBlock = 48 << 10;
  p.sharedMemPerBlockOptin = 227 << 10;
  p.reservedSharedMemPerBlock = 1 << 10;
  return p;
}

}  // namespace cuda_on_cpu
