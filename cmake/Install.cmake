# The programs, what they need at run time, and where an install puts it. `cella` finds the rest relative to its own
# executable: beside itself in the build tree, in ../libexec/cella and ../share/cella when installed. Hence those two
# are fixed, not GNUInstallDirs' (Debian's multiarch would move them).

set(CELLA_LANGUAGES "${PROJECT_SOURCE_DIR}/src/language/languages.toml")

add_custom_target(programs ALL
  COMMAND ${CMAKE_COMMAND} -E copy_if_different "${CELLA_LANGUAGES}" "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/"
  DEPENDS cella cella-launch
  COMMENT "Programs are in ${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")

install(TARGETS cella RUNTIME DESTINATION bin)
install(TARGETS cella-launch RUNTIME DESTINATION libexec/cella)
install(FILES "${CELLA_LANGUAGES}" DESTINATION share/cella)
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" DESTINATION share/doc/cella)

set(CELLA_COMPLETIONS "${PROJECT_SOURCE_DIR}/packaging/completions")
install(FILES "${CELLA_COMPLETIONS}/cella.bash" DESTINATION share/bash-completion/completions RENAME cella)
install(FILES "${CELLA_COMPLETIONS}/_cella" DESTINATION share/zsh/site-functions)
install(FILES "${CELLA_COMPLETIONS}/cella.fish" DESTINATION share/fish/vendor_completions.d)

add_custom_target(uninstall
  COMMAND ${CMAKE_COMMAND} -DMANIFEST=${CMAKE_BINARY_DIR}/install_manifest.txt
          -P "${PROJECT_SOURCE_DIR}/cmake/Uninstall.cmake"
  VERBATIM)
