find_package(GTest REQUIRED)

# One test program per folder; ctest label "unit".
function(cella_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${name}_test PRIVATE cella_${dependency})
  endforeach()
  target_link_libraries(${name}_test PRIVATE GTest::gmock GTest::gtest_main)
  add_test(NAME unit.${name} COMMAND ${name}_test)
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 120)
endfunction()
