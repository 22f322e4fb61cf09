# CAF's Debian package ships no CMake file: find the headers and libcaf_core, define troupe_caf.
find_path(CAF_INCLUDE_DIR caf/all.hpp REQUIRED)
find_library(CAF_CORE_LIBRARY caf_core REQUIRED)
add_library(troupe_caf INTERFACE)
target_include_directories(troupe_caf SYSTEM INTERFACE $<BUILD_INTERFACE:${CAF_INCLUDE_DIR}>)
target_link_libraries(troupe_caf INTERFACE ${CAF_CORE_LIBRARY} Threads::Threads)
set_target_properties(troupe_caf PROPERTIES EXPORT_NAME caf)
