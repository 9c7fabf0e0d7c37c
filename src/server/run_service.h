// Everything between a request to run code and the end of the run, once for all surfaces of the server: quota,
// registry, start, events, metrics, audit. On the loop.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "async/task.h"
#include "cella/run.h"
#include "run/stop.h"
#include "server/admission.h"
#include "server/api_error.h"
#include "server/hosted_run.h"
#include "server/hub.h"

namespace cella::server {

class HostedSession;

// How a client wants the answer to its run.
struct Delivery {
  std::optional<std::string> idempotency_key;
  bool wait = true;
  bool cancel_on_disconnect = false;
};

// Accepts a run of a session, in the registry as well, and lets it begin. 409: the run's key or id is that of another
// run; 429: too many wait.
async::Task<Answer<std::shared_ptr<HostedRun>>> StartRun(Hub& hub, HostedSession& session, RunSpec run,
                                                         Delivery delivery);

// A run in a session of its own, which exists for this run alone. `action` is the audit's: "run.once", "run.batch".
// `stop` outlives the task.
async::Task<Answer<RunResult>> RunAlone(Hub& hub, std::string client, const SessionSpec& spec, RunSpec run,
                                        std::string_view action, run::StopSource& stop);

}  // namespace cella::server
