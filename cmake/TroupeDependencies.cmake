# Every library that Troupe uses, by imported target. Debian 12's package is named beside each.
# Installed beside troupe-config.cmake, so that a program built against Troupe finds the same ones.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(fmt REQUIRED)            # libfmt-dev
find_package(spdlog REQUIRED)         # libspdlog-dev
find_package(yaml-cpp REQUIRED)       # libyaml-cpp-dev
find_package(nlohmann_json REQUIRED)  # nlohmann-json3-dev
find_package(dnnl REQUIRED)           # libdnnl-dev
find_package(ZLIB REQUIRED)           # zlib1g-dev
find_package(JPEG REQUIRED)           # libjpeg62-turbo-dev
find_package(PNG REQUIRED)            # libpng-dev
find_package(OpenSSL REQUIRED COMPONENTS Crypto)  # libssl-dev
find_package(CURL REQUIRED)           # libcurl4-openssl-dev
find_package(Gloo REQUIRED)            # libgloo-dev
find_package(cppzmq REQUIRED)         # libzmq3-dev, cppzmq-dev
find_package(Protobuf REQUIRED)       # protobuf-compiler, libprotobuf-dev

find_package(PkgConfig REQUIRED)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)    # liblz4-dev
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)    # libhwy-dev
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)  # libxxhash-dev
pkg_check_modules(DEFLATE REQUIRED IMPORTED_TARGET libdeflate)  # libdeflate-dev
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)  # libzstd-dev
pkg_check_modules(BLOSC REQUIRED IMPORTED_TARGET blosc)   # libblosc-dev
pkg_search_module(HDF5 REQUIRED IMPORTED_TARGET hdf5-serial hdf5)  # libhdf5-dev: the serial variant
include(${CMAKE_CURRENT_LIST_DIR}/FindCaf.cmake)          # libcaf-dev
