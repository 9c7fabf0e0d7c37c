# Third-party headers that most files include, parsed once. A file must still include what it uses: -DCELLA_PRECOMPILE=OFF
# builds without them. Three sets: the standard library and {fmt}; the first with Asio and JSON; the second with GoogleTest,
# unoptimised like the unit tests.

option(CELLA_PRECOMPILE "Parse the headers of other libraries once" ON)
if(NOT CELLA_PRECOMPILE)
  function(cella_precompile)
  endfunction()
  return()
endif()

set(headers_of_plain
  <algorithm> <array> <charconv> <chrono> <cstdint> <cstdlib> <cstring> <deque> <filesystem> <fstream> <functional> <map>
  <memory> <optional> <set> <span> <sstream> <string> <string_view> <thread> <utility> <variant> <vector>
  <dirent.h> <fcntl.h> <poll.h> <signal.h> <sys/socket.h> <sys/stat.h> <sys/wait.h> <unistd.h>
  <fmt/format.h>)
set(headers_of_async
  ${headers_of_plain}
  <boost/asio/awaitable.hpp> <boost/asio/bind_cancellation_slot.hpp> <boost/asio/buffer.hpp>
  <boost/asio/cancellation_signal.hpp> <boost/asio/co_spawn.hpp> <boost/asio/experimental/awaitable_operators.hpp>
  <boost/asio/io_context.hpp> <boost/asio/posix/stream_descriptor.hpp> <boost/asio/post.hpp>
  <boost/asio/redirect_error.hpp> <boost/asio/steady_timer.hpp> <boost/asio/this_coro.hpp> <boost/asio/use_awaitable.hpp>
  <nlohmann/json.hpp>)
set(headers_of_test ${headers_of_async} <gmock/gmock.h> <gtest/gtest.h>)

function(cella_precompiled_set kind)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/precompiled/${kind}.cc" CONTENT "")
  add_library(cella_precompiled_${kind} OBJECT "${CMAKE_BINARY_DIR}/precompiled/${kind}.cc")
  target_link_libraries(cella_precompiled_${kind} PRIVATE cella_fmt)
  target_precompile_headers(cella_precompiled_${kind} PRIVATE ${headers_of_${kind}})
endfunction()

cella_precompiled_set(plain)
cella_precompiled_set(async)
target_link_libraries(cella_precompiled_async PRIVATE cella_asio nlohmann_json::nlohmann_json)
if(CELLA_BUILD_TESTS)
  cella_precompiled_set(test)
  target_link_libraries(cella_precompiled_test PRIVATE cella_asio nlohmann_json::nlohmann_json GTest::gmock)
  target_compile_options(cella_precompiled_test PRIVATE ${CELLA_UNIT_TEST_OPTIONS})
endif()

# Lets a target use one of the sets.
function(cella_precompile target kind)
  target_precompile_headers(${target} REUSE_FROM cella_precompiled_${kind})
endfunction()
