// Gives a value to a session, whose code finds it as a variable. Lives on the loop.
#pragma once

#include <string>

#include "async/task.h"
#include "cella/run.h"
#include "server/api_error.h"
#include "server/hosted_session.h"

namespace cella::server {

// Waits for its turn, as a run does. 409: the code's interpreter did not take it.
async::Task<Answer<void>> PutValue(Hub& hub, HostedSession& session, Variable value, std::string language);

}  // namespace cella::server
