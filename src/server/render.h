// JSON of results and events. A large one is rendered on a pool, because escaping megabytes takes the time of many
// requests. Lives on the loop.
#pragma once

#include <string>

#include "async/blocking_pool.h"
#include "async/task.h"
#include "cella/outcome.h"
#include "session/json.h"

namespace cella::server {

// The result is borrowed and must not change meanwhile.
async::Task<std::string> RenderResult(async::BlockingPool& pool, const RunResult& result);

// One event at a time of each encoder. Empty: nothing to show yet.
async::Task<std::string> RenderEvent(async::BlockingPool& pool, session::EventEncoder& encoder, const Event& event);

}  // namespace cella::server
