# The programs, what they need at run time, and where an install puts it. `cella` finds the rest relative to its own
# executable: beside itself in the build tree, in ../libexec/cella and ../share/cella when installed. Hence those two
# are fixed, not GNUInstallDirs' (Debian's multiarch would move them).

set(CELLA_LANGUAGES "${PROJECT_SOURCE_DIR}/src/language/languages.toml")

# What lives inside guests, with the library that forks them: one folder, which jails see as /run/cella.
set(CELLA_RUNNERS "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/runners")
set_target_properties(cella_fork PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CELLA_RUNNERS}")

add_custom_target(programs ALL
  COMMAND ${CMAKE_COMMAND} -E copy_if_different "${CELLA_LANGUAGES}" "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/"
  COMMAND ${CMAKE_COMMAND} -E copy_directory "${PROJECT_SOURCE_DIR}/runners" "${CELLA_RUNNERS}"
  DEPENDS cella cella-launch cella_fork
  COMMENT "Programs are in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")

install(TARGETS cella RUNTIME DESTINATION bin)
install(TARGETS cella-launch RUNTIME DESTINATION libexec/cella)
install(TARGETS cella_fork LIBRARY DESTINATION libexec/cella/runners)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/runners/" DESTINATION libexec/cella/runners PATTERN __pycache__ EXCLUDE)
# A zygote starts some 20 ms sooner when it finds the runner compiled. For the system's Python; others compile it anew.
install(CODE [[
  find_program(python NAMES python3 PATHS /usr/bin NO_DEFAULT_PATH)
  if(python)
    set(runner "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/libexec/cella/runners/python/cella_runner")
    execute_process(COMMAND "${python}" -I -m compileall -q "${runner}" OUTPUT_QUIET ERROR_QUIET)
    file(GLOB compiled "${runner}/__pycache__/*.pyc")
    foreach(file IN LISTS compiled)
      cmake_path(GET file FILENAME name)
      list(APPEND CMAKE_INSTALL_MANIFEST_FILES
        "${CMAKE_INSTALL_PREFIX}/libexec/cella/runners/python/cella_runner/__pycache__/${name}")
    endforeach()
  endif()
]])
install(FILES "${CELLA_LANGUAGES}" DESTINATION share/cella)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/cella)
# The programs contain parts of these, whose licences go with them: as Debian and its kin keep them. Elsewhere whoever
# packages Cella adds them. (Boost asks for nothing where a compiler made a program of it.)
foreach(contained "cli11=libcli11-dev" "fmt=libfmt-dev" "glibc=libc6-dev"
        "json=nlohmann-json3-dev" "libstdc++=libstdc++-*-dev" "openssl=libssl-dev" "sqlite=libsqlite3-dev"
        "tomlplusplus=libtomlplusplus-dev")
  string(REGEX MATCH "^(.*)=(.*)$" _ "${contained}")
  set(name "${CMAKE_MATCH_1}")
  file(GLOB notices "/usr/share/doc/${CMAKE_MATCH_2}/copyright")
  if(notices)
    list(GET notices 0 notice)
    file(REAL_PATH "${notice}" notice)
    install(FILES "${notice}" DESTINATION share/doc/cella/contained RENAME "${name}.txt")
  else()
    message(STATUS "No licence of ${name} is found here: `make install` will not put it beside the programs.")
  endif()
endforeach()

set(CELLA_COMPLETIONS "${PROJECT_SOURCE_DIR}/packaging/completions")
install(FILES "${CELLA_COMPLETIONS}/cella.bash" DESTINATION share/bash-completion/completions RENAME cella)
install(FILES "${CELLA_COMPLETIONS}/_cella" DESTINATION share/zsh/site-functions)
install(FILES "${CELLA_COMPLETIONS}/cella.fish" DESTINATION share/fish/vendor_completions.d)

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
          -P "${PROJECT_SOURCE_DIR}/cmake/Uninstall.cmake"
  VERBATIM)
