# Third-party libraries, all from distribution packages (tools/packages.txt). Header-only where possible, so that the
# programs link only glibc dynamically.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
# Release 9 is compiled once, in src/base/fmt.cc; other releases have other parts and are compiled in every file.
add_library(cella_fmt INTERFACE)
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  target_include_directories(cella_fmt SYSTEM INTERFACE "$<TARGET_PROPERTY:fmt::fmt,INTERFACE_INCLUDE_DIRECTORIES>")
else()
  target_link_libraries(cella_fmt INTERFACE fmt::fmt-header-only)
endif()
find_package(nlohmann_json REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(SECCOMP REQUIRED IMPORTED_TARGET libseccomp)  # build time only, to compile the filter

set(OPENSSL_USE_STATIC_LIBS TRUE)
find_package(OpenSSL 3 REQUIRED)  # TLS of the HTTP server and client
# Link the static library if the distribution has one, as for all libraries of the programs.
find_path(CELLA_SQLITE_INCLUDE sqlite3.h REQUIRED)
find_library(CELLA_SQLITE_LIBRARY NAMES libsqlite3.a sqlite3 REQUIRED)
add_library(cella_sqlite INTERFACE)
target_include_directories(cella_sqlite SYSTEM INTERFACE "${CELLA_SQLITE_INCLUDE}")
target_link_libraries(cella_sqlite INTERFACE "${CELLA_SQLITE_LIBRARY}" m ${CMAKE_DL_LIBS} Threads::Threads)

# Boost ≥ 1.81 for Asio's per-operation cancellation; headers only.
find_path(CELLA_BOOST_INCLUDE boost/asio/experimental/awaitable_operators.hpp REQUIRED)
file(STRINGS "${CELLA_BOOST_INCLUDE}/boost/version.hpp" CELLA_BOOST_VERSION REGEX "#define BOOST_VERSION [0-9]+")
string(REGEX MATCH "[0-9]+" CELLA_BOOST_VERSION "${CELLA_BOOST_VERSION}")
if(CELLA_BOOST_VERSION LESS 108100)
  message(FATAL_ERROR "Boost ${CELLA_BOOST_VERSION} is too old: 1.81 or later is needed (Debian 12: libboost1.81-dev).")
endif()

add_library(cella_asio INTERFACE)  # compiled once, by src/async/asio.cc
target_include_directories(cella_asio SYSTEM INTERFACE "${CELLA_BOOST_INCLUDE}")
target_compile_definitions(cella_asio INTERFACE BOOST_ASIO_SEPARATE_COMPILATION)
target_link_libraries(cella_asio INTERFACE Threads::Threads)

find_path(CELLA_CLI11_INCLUDE CLI/CLI.hpp REQUIRED)
find_path(CELLA_TOMLPLUSPLUS_INCLUDE toml++/toml.h REQUIRED)
