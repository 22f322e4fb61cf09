# Language level, warnings and sanitizers, for every target of the project.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

add_library(troupe_flags INTERFACE)
target_compile_options(troupe_flags INTERFACE -Wall -Wextra -Wno-missing-field-initializers)
if(TROUPE_SANITIZE STREQUAL "address")
  # -fno-sanitize=null: CAF 0.17.6 binds null references inside spawn.
  set(flags -fsanitize=address,undefined -fno-sanitize=null -fno-sanitize-recover=undefined
            -fno-omit-frame-pointer)
elseif(TROUPE_SANITIZE STREQUAL "thread")
  set(flags -fsanitize=thread -fno-omit-frame-pointer)
elseif(TROUPE_SANITIZE)
  message(FATAL_ERROR "TROUPE_SANITIZE is '${TROUPE_SANITIZE}'; it can be address, thread or empty")
endif()
if(flags)
  target_compile_options(troupe_flags INTERFACE ${flags})
  target_link_options(troupe_flags INTERFACE ${flags})
endif()

if(TROUPE_FUZZ)
  target_compile_options(troupe_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# troupe_precompile(TARGET headers...): the compiler reads these headers once for the target, where there is no ccache,
# which takes no file with precompiled headers from its cache.
function(troupe_precompile target)
  if(NOT CCACHE_PROGRAM)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# A layer of the library: every source below its folder but those of ops/cuda, which is a library of its own.
# troupe_layer(NAME [layers below...])
function(troupe_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/ops/cuda/")
  add_library(troupe_${name} STATIC ${sources})
  target_include_directories(troupe_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>)
  target_link_libraries(troupe_${name} PUBLIC ${ARGN} PRIVATE $<BUILD_INTERFACE:troupe_flags>)
  set_target_properties(troupe_${name} PROPERTIES EXPORT_NAME ${name})
  troupe_precompile(troupe_${name} <algorithm> <array> <chrono> <filesystem> <functional> <map> <memory> <optional> <set>
                    <span> <sstream> <string> <thread> <vector> <fmt/format.h>)  # a fifth of the time of compilation
endfunction()
