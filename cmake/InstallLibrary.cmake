# libcella.so for applications, as the component `library`. It finds the programs relative to itself (lib/ beside libexec/ and
# share/), therefore its place is fixed too.

include(CMakePackageConfigHelpers)

target_include_directories(cella_shared INTERFACE "$<INSTALL_INTERFACE:include>")
set_target_properties(cella_shared PROPERTIES EXPORT_NAME cella)
add_dependencies(programs cella_shared)  # what `make build` makes, `make install` installs
install(TARGETS cella_shared EXPORT cella-targets LIBRARY DESTINATION lib COMPONENT library)
install(EXPORT cella-targets NAMESPACE cella:: DESTINATION lib/cmake/cella COMPONENT library)
install(FILES "${PROJECT_SOURCE_DIR}/include/cella.h" DESTINATION include COMPONENT library)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/cella" DESTINATION include COMPONENT library)
if(TARGET cella-repl-cpp)
  add_dependencies(programs cella-repl-cpp)
endif()

if(TARGET cella_python)
  # The plugin for CPython, and what it runs there: the Python package's own sessions.
  add_dependencies(programs cella_python)
  install(TARGETS cella_python LIBRARY DESTINATION libexec/cella COMPONENT library)
  install(DIRECTORY "${PROJECT_SOURCE_DIR}/sdk/python/src/cella" DESTINATION share/cella/python COMPONENT library
    FILES_MATCHING PATTERN "*.py" PATTERN "__pycache__" EXCLUDE)
endif()

set(generated "${CMAKE_BINARY_DIR}/packaging")
write_basic_package_version_file("${generated}/cella-config-version.cmake" COMPATIBILITY SameMinorVersion)
configure_file("${PROJECT_SOURCE_DIR}/packaging/library/cella.pc.in" "${generated}/cella.pc" @ONLY)
install(FILES "${PROJECT_SOURCE_DIR}/packaging/library/cella-config.cmake" "${generated}/cella-config-version.cmake"
  DESTINATION lib/cmake/cella COMPONENT library)
install(FILES "${generated}/cella.pc" DESTINATION lib/pkgconfig COMPONENT library)
