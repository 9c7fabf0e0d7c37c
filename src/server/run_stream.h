// The events of a run on their way to a client: as NDJSON, or as server-sent events where the client asks for those.
#pragma once

#include <cstdint>
#include <optional>

#include "async/task.h"
#include "http/exchange.h"
#include "server/hosted_run.h"

namespace cella::server {

enum class StreamFormat { kNone, kNdjson, kSse };

// By the Accept header; kNone: the client wants an ordinary answer.
StreamFormat WantedFormat(const http::Request& request);

// What follows the event `after` (or everything), until the run has ended or the client is gone; at the pace of the
// client. False: the client went first.
async::Task<bool> StreamEvents(http::Exchange& exchange, const HostedRun& run, std::optional<uint64_t> after,
                               StreamFormat format);

// One line of an event log as a server-sent event.
std::string ToSse(std::string_view line);

}  // namespace cella::server
