# Compiler, standard, warnings, linker.

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  message(FATAL_ERROR
    "GCC ${CMAKE_CXX_COMPILER_VERSION} miscompiles coroutines (double frees). Use clang-19 (the presets do) or GCC 13 and later.")
endif()

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin")

option(CELLA_WERROR "Treat warnings as errors" OFF)
set(CELLA_SANITIZE "" CACHE STRING "Sanitizers for the whole build, e.g. address,undefined")

add_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual -Wimplicit-fallthrough -fno-strict-aliasing)
if(CELLA_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  add_compile_options(-D_FORTIFY_SOURCE=2 -fstack-protector-strong)
endif()

# libcella.so consists of the same objects as the programs. Clang's are position-independent as it is, and the symbols of the
# library are local, so they fit. GCC's would address data of libc directly.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-fPIC)
endif()

if(CELLA_SANITIZE)
  add_compile_options(-fsanitize=${CELLA_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${CELLA_SANITIZE})
else()
  # The programs must start fast and run on other glibc distributions, so only glibc is linked dynamically.
  add_link_options(-static-libstdc++ -static-libgcc)
endif()

find_program(CELLA_LLD NAMES ld.lld-19 ld.lld)
if(CELLA_LLD AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  add_link_options(--ld-path=${CELLA_LLD})
endif()
add_link_options(-Wl,--as-needed -Wl,-z,relro)

find_program(CELLA_CCACHE ccache)
if(CELLA_CCACHE)
  # Precompiled headers are cached too, so their time stamps are meaningless.
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/tools/compile.sh" "${PROJECT_SOURCE_DIR}")
  if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    add_compile_options(-Xclang -fno-pch-timestamp)
  endif()
endif()
