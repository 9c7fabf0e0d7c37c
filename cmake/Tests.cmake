# Registers tests with ctest. Labels select them: the suite (unit, integration, …), `check` for `make check`, `long` for tests
# that only `make test-long` runs, and `subject:NAME` for `make check ONLY=NAME`. Every test writes its cases and durations to
# build/PRESET/test-results/NAME.xml, for tools/slow_tests.py.

find_package(GTest REQUIRED)

set(CELLA_TEST_RESULTS "${CMAKE_BINARY_DIR}/test-results")
file(MAKE_DIRECTORY "${CELLA_TEST_RESULTS}")

# The target that `make check ONLY=NAME` builds before it runs the tests of that subject.
function(cella_subject name)
  if(NOT TARGET check_${name})
    add_custom_target(check_${name})
    add_dependencies(check_${name} programs)
  endif()
endfunction()

# One test program per folder; ctest label "unit".
add_custom_target(unit_tests)

# The tested code is optimised. The tests are not, so they compile twice as fast.
set(CELLA_UNIT_TEST_OPTIONS -O0 -U_FORTIFY_SOURCE)

# A GoogleTest program: cella_gtest(NAME TARGET SUITE SUBJECT [WORD...]); the WORDs precede the program in its command.
function(cella_gtest name target suite subject)
  add_test(NAME ${name} COMMAND ${ARGN} $<TARGET_FILE:${target}> "--gtest_output=xml:${CELLA_TEST_RESULTS}/${name}.xml")
  cella_subject(${subject})
  add_dependencies(check_${subject} ${target})
  set_tests_properties(${name} PROPERTIES LABELS "${suite};check;subject:${subject}" TIMEOUT 300)
endfunction()

# SUBJECT defaults to the name.
function(cella_unit_test name)
  cmake_parse_arguments(ARG "" "SUBJECT" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name}_test ${ARG_SOURCES})
  foreach(dependency IN LISTS ARG_DEPENDS)
    target_link_libraries(${name}_test PRIVATE cella_${dependency})
  endforeach()
  target_link_libraries(${name}_test PRIVATE GTest::gmock GTest::gtest_main)
  if(CELLA_PRECOMPILE)
    target_link_libraries(${name}_test PRIVATE cella_async)  # the precompiled headers contain Asio
  endif()
  target_compile_options(${name}_test PRIVATE ${CELLA_UNIT_TEST_OPTIONS})
  cella_precompile(${name}_test test)
  add_dependencies(unit_tests ${name}_test)
  if(NOT ARG_SUBJECT)
    set(ARG_SUBJECT ${name})
  endif()
  cella_gtest(unit.${name} ${name}_test unit ${ARG_SUBJECT})
endfunction()

# pytest tests as one ctest test.
#   cella_pytest(NAME SUITE integration SUBJECT server PATHS FILE... [CHECK] [ALONE] [AS_USER] [LONG]
#                [MARK EXPRESSION] [NAMED EXPRESSION] [SHARD K/N] [NEEDS NAME...] [ENV K=V...] [PYTHON WORD...] [COST SECONDS])
# AS_USER: as an ordinary user (tests/support/as_user.py). ALONE: with no other test at the same time. LONG: only in
# `make test-long`, with CELLA_TESTS_LONG=1. COST: ctest starts tests with a higher cost first.
function(cella_pytest name)
  cmake_parse_arguments(ARG "CHECK;ALONE;AS_USER;LONG" "SUITE;SUBJECT;MARK;NAMED;SHARD;COST;FOLDER;TIMEOUT"
    "PATHS;NEEDS;ENV;PYTHON" ${ARGN})
  if(NOT ARG_PYTHON)
    set(ARG_PYTHON /usr/bin/python3)
  endif()
  set(results "${CELLA_TEST_RESULTS}/${name}.xml")
  set(tests "${PROJECT_SOURCE_DIR}/tests")
  if(ARG_AS_USER)
    set(written "{results}")
    string(REPLACE "${tests}" "{tests}" ARG_PATHS "${ARG_PATHS}")
  else()
    set(written "${results}")
  endif()
  set(command ${ARG_PYTHON} -B -m pytest -q -p no:cacheprovider --durations=40 --durations-min=0.5
    "--junitxml=${written}" -o junit_suite_name=${name})
  foreach(option "-m=MARK" "-k=NAMED" "--shard=SHARD")
    string(REGEX MATCH "^(.*)=(.*)$" _ "${option}")
    if(ARG_${CMAKE_MATCH_2})
      list(APPEND command ${CMAKE_MATCH_1} "${ARG_${CMAKE_MATCH_2}}")
    endif()
  endforeach()
  list(APPEND command ${ARG_PATHS})
  if(ARG_AS_USER)
    set(command /usr/bin/python3 "${tests}/support/as_user.py" --programs "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
      --tests "${tests}" --results "${results}" -- ${command})
  endif()
  if(NOT ARG_FOLDER)
    set(ARG_FOLDER "${CMAKE_BINARY_DIR}")
  endif()
  add_test(NAME ${name} COMMAND ${command} WORKING_DIRECTORY "${ARG_FOLDER}")

  cella_subject(${ARG_SUBJECT})
  set(labels ${ARG_SUITE})
  if(ARG_LONG)
    list(APPEND labels long)
    list(APPEND ARG_ENV CELLA_TESTS_LONG=1)
    set(ARG_TIMEOUT 3600)
  elseif(NOT ARG_AS_USER)
    list(APPEND labels subject:${ARG_SUBJECT})
  endif()
  if(ARG_CHECK)
    list(APPEND labels check)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 900)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${labels}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT
    "CELLA_BIN=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}/cella;CELLA_TEST_NEEDS=${PROJECT_SOURCE_DIR}/build/needs;${ARG_ENV}")
  if(ARG_ALONE)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
  if(ARG_COST)
    set_tests_properties(${name} PROPERTIES COST ${ARG_COST})
  endif()
  foreach(engine docker podman)
    if(engine IN_LIST ARG_NEEDS)
      # They share one engine, and check that none of its containers stays.
      set_tests_properties(${name} PROPERTIES RESOURCE_LOCK ${engine})
    endif()
  endforeach()
  if(ARG_NEEDS)
    list(TRANSFORM ARG_NEEDS PREPEND need.)
    set_tests_properties(${name} PROPERTIES FIXTURES_REQUIRED "${ARG_NEEDS}")
  endif()
endfunction()

# Reads the marks in a test file that affect ctest: `alone`, `as_user`, and the names of needs. A mark of the whole file is
# assigned to `pytestmark`. CMake runs again when the file changes.
function(cella_read_marks file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  file(READ "${file}" text)
  foreach(mark alone as_user)
    string(REGEX MATCH "mark\\.${mark}" some "${text}")
    string(REGEX MATCH "\npytestmark[^\n]*mark\\.${mark}" all "${text}")
    if(all)
      set(${mark} all PARENT_SCOPE)
    elseif(some)
      set(${mark} some PARENT_SCOPE)
    else()
      set(${mark} none PARENT_SCOPE)
    endif()
  endforeach()
  string(REGEX MATCHALL "mark\\.needs\\(\"[a-z-]+\"" found "${text}")
  list(TRANSFORM found REPLACE "mark\\.needs\\(\"([a-z-]+)\"" "\\1")
  list(REMOVE_DUPLICATES found)
  set(needs "${found}" PARENT_SCOPE)
endfunction()

# Registers the tests of a file that have the mark WITH (all without it) as `NAME`, and of these the ones marked `alone` as
# `NAME.alone`. `alone` and `needs` are what cella_read_marks found. Further arguments are passed to cella_pytest.
function(cella_pytest_apart name alone needs)
  cmake_parse_arguments(ARG "" "WITH" "" ${ARGN})
  set(words NEEDS ${needs} ${ARG_UNPARSED_ARGUMENTS})
  if(ARG_WITH)
    string(APPEND ARG_WITH " and ")
  endif()
  if(NOT alone STREQUAL "all")
    cella_pytest(${name} ${words} MARK "${ARG_WITH}not alone")
  endif()
  if(NOT alone STREQUAL "none")
    cella_pytest(${name}.alone ${words} MARK "${ARG_WITH}alone" ALONE)
  endif()
endfunction()

# Registers a file as `NAME`, and, depending on its marks, as `NAME.alone`, `NAME.as_user` and `NAME.as_user.alone`; with
# FULL_SECOND_USER also all of it as an ordinary user, as `long.NAME.as_user`, for `make test-long`. Further arguments are
# passed to cella_pytest.
function(cella_pytest_file name file)
  cmake_parse_arguments(ARG "FULL_SECOND_USER" "" "" ${ARGN})
  cella_read_marks("${file}")
  set(words PATHS "${file}" ${ARG_UNPARSED_ARGUMENTS})
  cella_pytest_apart(${name} ${alone} "${needs}" ${words})
  list(REMOVE_ITEM words CHECK)
  if(ARG_FULL_SECOND_USER)
    cella_pytest_apart(long.${name}.as_user ${alone} "${needs}" ${words} AS_USER LONG)
  endif()
  if(NOT as_user STREQUAL "none")
    cella_pytest_apart(${name}.as_user ${alone} "${needs}" ${words} WITH as_user AS_USER)
    if(as_user STREQUAL "some" AND alone STREQUAL "some")
      # Single tests have these marks. If no test has both, pytest exits with 5.
      set_tests_properties(${name}.as_user.alone PROPERTIES SKIP_RETURN_CODE 5)
    endif()
  endif()
endfunction()

# A service that tests/needs/NAME.sh starts before, and stops after, the tests that declare it.
function(cella_need name)
  set(script "${PROJECT_SOURCE_DIR}/tests/needs/${name}.sh")
  add_test(NAME need.${name} COMMAND "${script}" start "${PROJECT_SOURCE_DIR}/build/needs")
  add_test(NAME need.${name}.stop COMMAND "${script}" stop "${PROJECT_SOURCE_DIR}/build/needs")
  set_tests_properties(need.${name} PROPERTIES FIXTURES_SETUP need.${name} TIMEOUT 300 LABELS needs)
  set_tests_properties(need.${name}.stop PROPERTIES FIXTURES_CLEANUP need.${name} TIMEOUT 60 LABELS needs)
endfunction()
