# find_package(cella) gives the target cella::cella.
include("${CMAKE_CURRENT_LIST_DIR}/cella-targets.cmake")
