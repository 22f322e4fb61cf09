# CMake 3.25's module of this name sets a property of CUDA::nvToolsExt, and fails where there is no such library: CUDA 13
# has none. Nothing links it.
if(NOT TARGET CUDA::nvToolsExt)
  add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
endif()
include(${CMAKE_ROOT}/Modules/FindCUDAToolkit.cmake)
