# `cmake --install`: headers below include/troupe, libraries, and find_package(troupe).
include(CMakePackageConfigHelpers)
