# The programs, the files that they need at run time, and their install locations. `cella` finds these files relative to its
# executable: beside it in the build tree, in ../libexec/cella and ../share/cella when installed. Therefore these two paths
# are fixed and not those of GNUInstallDirs, which Debian's multiarch would change.

set(CELLA_LANGUAGES "${PROJECT_SOURCE_DIR}/src/language/languages.toml")

# The runners and the library that forks them: one folder, mounted in jails at /run/cella.
set(CELLA_RUNNERS "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/runners")
set_target_properties(cella_fork PROPERTIES LIBRARY_OUTPUT_DIRECTORY "${CELLA_RUNNERS}")
# PID 1 of containers, which are shown the same folder.
set_target_properties(cella-agent PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CELLA_RUNNERS}")
# On the PATH of every guest whose processes can call the host.
set_target_properties(cella-call PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CELLA_RUNNERS}/bin")

add_custom_target(programs ALL
  COMMAND ${CMAKE_COMMAND} -E copy_if_different "${CELLA_LANGUAGES}" "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/"
  COMMAND ${CMAKE_COMMAND} -E copy_directory "${PROJECT_SOURCE_DIR}/runners" "${CELLA_RUNNERS}"
  DEPENDS cella cella-launch cella_fork cella-agent cella-call
  COMMENT "Programs are in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")

install(TARGETS cella RUNTIME DESTINATION bin)
install(TARGETS cella-launch RUNTIME DESTINATION libexec/cella)
install(TARGETS cella_fork LIBRARY DESTINATION libexec/cella/runners)
install(TARGETS cella-agent RUNTIME DESTINATION libexec/cella/runners)
install(TARGETS cella-call RUNTIME DESTINATION libexec/cella/runners/bin)
install(DIRECTORY "${PROJECT_SOURCE_DIR}/runners/" DESTINATION libexec/cella/runners
  PATTERN __pycache__ EXCLUDE
  REGEX "/shims/bin/" PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
# A zygote starts about 20 ms sooner with a compiled runner. Compiled for the system's Python; others compile it at start.
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
# The programs contain parts of these libraries, so their licences are installed, from where Debian and its derivatives keep
# them. On other systems the packager must add them. (Boost's licence does not require this for compiled programs.)
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

# Units name the program where it was installed. `cmake --install --prefix` may name another place than the configuration.
install(CODE "set(unit_sources \"${PROJECT_SOURCE_DIR}/packaging/systemd\")")
install(CODE [[
  set(units "${CMAKE_INSTALL_PREFIX}/lib/systemd/system")
  configure_file("${unit_sources}/cella.service.in" "$ENV{DESTDIR}${units}/cella.service" @ONLY)
  configure_file("${unit_sources}/cella.socket" "$ENV{DESTDIR}${units}/cella.socket" COPYONLY)
  list(APPEND CMAKE_INSTALL_MANIFEST_FILES "${units}/cella.service" "${units}/cella.socket")
]])

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
          -P "${PROJECT_SOURCE_DIR}/cmake/Uninstall.cmake"
  VERBATIM)
