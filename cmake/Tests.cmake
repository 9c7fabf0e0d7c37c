find_package(GTest REQUIRED)

# One test program per folder; ctest label "unit".
add_custom_target(unit_tests)

# What they test is optimised; they themselves need not be, and compile twice as fast.
set(CELLA_UNIT_TEST_OPTIONS -O0 -U_FORTIFY_SOURCE)

function(cella_unit_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${name}_test PRIVATE cella_${dependency})
  endforeach()
  target_link_libraries(${name}_test PRIVATE GTest::gmock GTest::gtest_main)
  if(CELLA_PRECOMPILE)
    target_link_libraries(${name}_test PRIVATE cella_async)  # the precompiled headers have Asio
  endif()
  target_compile_options(${name}_test PRIVATE ${CELLA_UNIT_TEST_OPTIONS})
  cella_precompile(${name}_test test)
  add_dependencies(unit_tests ${name}_test)
  add_test(NAME unit.${name} COMMAND ${name}_test)
  set_tests_properties(unit.${name} PROPERTIES LABELS unit TIMEOUT 120 RUN_SERIAL ON)
endfunction()
