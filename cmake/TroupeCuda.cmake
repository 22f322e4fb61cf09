# Finds a CUDA toolkit with cuDNN, decides for which GPUs to compile, and enables the language. Included where
# TROUPE_CUDA is on. A toolkit is looked for in this order: CMAKE_CUDA_COMPILER, CUDACXX, PATH, CUDA_HOME,
# /usr/local/cuda.
set(TROUPE_CUDA_ARCHITECTURES "" CACHE STRING
    "CMAKE_CUDA_ARCHITECTURES of libtroupe_cuda.so; empty: all from sm_70 on that matter and the toolkit has")
if(NOT CMAKE_CUDA_COMPILER)
  find_program(nvcc NAMES $ENV{CUDACXX} nvcc HINTS $ENV{CUDA_HOME}/bin /usr/local/cuda/bin NO_CACHE)
  if(NOT nvcc)
    message(FATAL_ERROR "TROUPE_CUDA is on, but there is no nvcc in PATH, CUDA_HOME or /usr/local/cuda. "
                        "`./dev build --cuda` gets one; else set CMAKE_CUDA_COMPILER.")
  endif()
  set(CMAKE_CUDA_COMPILER ${nvcc} CACHE FILEPATH "nvcc")
endif()

# The default of CMake 3.25, sm_52, is none of CUDA 13, so it is replaced before nvcc is tried.
if(TROUPE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES ${TROUPE_CUDA_ARCHITECTURES})
else()
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE found COMMAND_ERROR_IS_FATAL ANY)
  set(CMAKE_CUDA_ARCHITECTURES "")
  foreach(architecture 70 75 80 86 89 90 100 110 120)  # each also serves later ones of its tens, as 100 does 103
    if(found MATCHES "compute_${architecture}\n")
      list(APPEND CMAKE_CUDA_ARCHITECTURES ${architecture}-real)
      set(newest ${architecture})
    endif()
  endforeach()
  list(APPEND CMAKE_CUDA_ARCHITECTURES ${newest}-virtual)  # PTX, which a driver compiles for GPUs to come
endif()
if(CCACHE_PROGRAM)
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25.1 does not know that nvcc 12 and 13 have C++20
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  list(APPEND CMAKE_CUDA_COMPILE_FEATURES cuda_std_20)
endif()
set(CMAKE_CUDA_STANDARD 20)
find_package(CUDAToolkit 12.4 REQUIRED)

find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} REQUIRED)
find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} REQUIRED)
find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
          DOC "Headers of cuDNN's C++ frontend 1.32 or later (PyPI: nvidia-cudnn-frontend)" REQUIRED)
message(STATUS "CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}, cuDNN in ${CUDNN_LIBRARY}")
