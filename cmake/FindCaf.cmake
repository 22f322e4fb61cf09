# CAF's Debian package ships no CMake file: find the headers and libcaf_core, define troupe_caf.
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
find_library(CAF_CORE_LIBRARY caf_core REQUIRED)
if(NOT TARGET troupe_caf)
  add_library(troupe_caf INTERFACE IMPORTED GLOBAL)
endif()
target_include_directories(troupe_caf SYSTEM INTERFACE ${CAF_INCLUDE_DIR})
target_link_libraries(troupe_caf INTERFACE ${CAF_CORE_LIBRARY} Threads::Threads)
