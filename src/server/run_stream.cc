#include "server/run_stream.h"

#include "async/deadline.h"
#include "http/sse.h"
#include "session/json.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;

// Proxies and clients give up on a connection that is silent for a minute or so.
constexpr auto kKeepAlive = 15s;

std::string ToSseAll(std::string_view lines) {
  std::string out;
  while (!lines.empty()) {
    const size_t end = lines.find('\n');
    out += ToSse(lines.substr(0, end));
    lines.remove_prefix(end + 1);
  }
  return out;
}

// True when the reader may go on; false when the client is gone.
async::Task<bool> WaitWithClient(registry::EventLog::Reader& reader, http::Exchange& exchange) {
  auto first = co_await async::FirstOf(reader.Wait(), exchange.Disconnected());
  co_return first.index() == 0;
}

}  // namespace

StreamFormat WantedFormat(const http::Request& request) {
  const std::string_view accept = request.header("Accept").value_or("");
  if (accept.find("text/event-stream") != std::string_view::npos) return StreamFormat::kSse;
  if (accept.find("application/x-ndjson") != std::string_view::npos) return StreamFormat::kNdjson;
  return StreamFormat::kNone;
}

std::string ToSse(std::string_view line) {
  const session::EventHead head = session::HeadOf(line);
  std::string event;
  http::AppendEvent({head.number, head.type, line}, event);
  return event;
}

async::Task<bool> StreamEvents(http::Exchange& exchange, const HostedRun& run, std::optional<uint64_t> after,
                               StreamFormat format) {
  const bool sse = format == StreamFormat::kSse;
  auto begun = co_await exchange.Begin(200, {{"Content-Type", sse ? http::kEventStreamType : http::kNdjsonType},
                                             {"Cache-Control", "no-store"},
                                             {"X-Cella-Run", run.id()},
                                             {"X-Accel-Buffering", "no"}});
  if (!begun) co_return false;
  auto reader = run.events()->ReadAfter(after);
  for (;;) {
    auto lines = reader.Read();
    if (!lines) co_return true;  // forgotten meanwhile: a stream that is cut tells the client so
    if (!lines->empty()) {
      if (sse) *lines = ToSseAll(*lines);
      auto written = co_await exchange.Write(*lines);
      if (!written) co_return false;
      continue;
    }
    if (reader.at_end()) break;
    auto here = co_await async::WithDeadline(WaitWithClient(reader, exchange), async::Clock::now() + kKeepAlive);
    if (here && !*here) co_return false;
    if (here) continue;
    auto written = co_await exchange.Write(sse ? http::kKeepAliveComment : "\n");
    if (!written) co_return false;
  }
  (void)co_await exchange.End();
  co_return true;
}

}  // namespace cella::server
