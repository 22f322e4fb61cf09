# `cmake --install`: the command, the libraries, troupe.h and the headers that it reaches, below
# include/troupe with the same relative paths as here, and find_package(troupe), which gives
# troupe::troupe.
include(CMakePackageConfigHelpers)

add_library(troupe_library INTERFACE)
target_link_libraries(troupe_library INTERFACE troupe_app troupe_actors troupe_ops troupe_runtime)
set_target_properties(troupe_library PROPERTIES EXPORT_NAME troupe)
add_library(troupe::troupe ALIAS troupe_library)

# Two folders, so that <troupe/troupe.h> and the headers' own "runtime/error.h" are both found.
foreach(layer runtime ops actors app)
  target_compile_features(troupe_${layer} PUBLIC cxx_std_20)
  target_include_directories(troupe_${layer} PUBLIC
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}/troupe>)
endforeach()
install(CODE "set(source \"${PROJECT_SOURCE_DIR}\")
set(headers_folder \"\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_INCLUDEDIR}/troupe\")")
install(SCRIPT cmake/InstallHeaders.cmake)
# Libraries outside the system's folders, such as those of Spack or EasyBuild, are found without LD_LIBRARY_PATH.
set_target_properties(troupe PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS troupe RUNTIME)
install(DIRECTORY clusters DESTINATION ${CMAKE_INSTALL_DATADIR}/troupe FILES_MATCHING PATTERN "*.yaml")
# For `module load`. It is in Tcl, which Environment Modules and Lmod both read, and it names the folders of this
# prefix, so that a site may copy it to its own tree of modules.
set(modulefile ${CMAKE_INSTALL_DATADIR}/modulefiles/troupe/${PROJECT_VERSION})
install(CODE "file(WRITE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${modulefile}\" \"#%Module1.0
proc ModulesHelp {} {
  puts stderr {Troupe ${PROJECT_VERSION}: ${PROJECT_DESCRIPTION}.
It adds the command troupe to PATH, and find_package(troupe) to CMake. `troupe --help` lists the verbs.}
}
module-whatis {Troupe ${PROJECT_VERSION}: ${PROJECT_DESCRIPTION}}
conflict troupe
prepend-path PATH \${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_BINDIR}
prepend-path CMAKE_PREFIX_PATH \${CMAKE_INSTALL_PREFIX}
\")")
install(TARGETS troupe_library troupe_app troupe_actors troupe_ops troupe_runtime EXPORT troupe-targets)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/troupe)
install(EXPORT troupe-targets NAMESPACE troupe:: DESTINATION ${config_folder})
# In a folder where find_package() does not look: with build/release/bin in PATH, it would take the build for an
# installation.
configure_package_config_file(cmake/troupe-config.cmake.in ${CMAKE_BINARY_DIR}/package/troupe-config.cmake
                              INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/troupe-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/troupe-config.cmake
              ${CMAKE_BINARY_DIR}/package/troupe-config-version.cmake
              cmake/TroupeDependencies.cmake cmake/FindCaf.cmake
        DESTINATION ${config_folder})

# `cpack` in the build folder writes a Debian package of the same files. It needs dpkg-shlibdeps of
# Debian's package dpkg-dev.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_CONTACT "the authors of Troupe")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  set(CPACK_DEBIAN_PACKAGE_SUGGESTS dataset-fashion-mnist)
  include(CPack)
endif()
