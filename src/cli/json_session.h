// A session driven by a program: one JSON request a line in, one answer a line out (docs/sessions.md). Requests are
// taken while a run is on, so that it can be interrupted, cancelled or answered.
#pragma once

#include <list>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "async/event.h"
#include "async/task_group.h"
#include "cli/line_writer.h"
#include "session/session.h"

namespace cella::cli {

class JsonSession {
 public:
  // The session outlives this.
  JsonSession(async::Loop& loop, session::Session& session, std::string language)
      : loop_(loop),
        session_(session),
        language_(std::move(language)),
        out_(loop, 1, [this] { reader_gone_.Set(); }),
        reader_gone_(loop),
        work_(loop) {}

  // Until standard input ends or a stop signal comes; what was asked for is answered first. The exit status.
  async::Task<int> Run();

 private:
  async::Task<void> ReadRequests();
  void Dispatch(std::string line);
  async::Task<void> Serve(std::string line);
  async::Task<Result<RunResult>> RunToEnd(RunSpec spec, run::EventSink* sink, const nlohmann::ordered_json& id);
  // The run that the request with this id started; null: it is over, or there was none.
  std::shared_ptr<session::Run> Find(const nlohmann::ordered_json& request_id) const;

  async::Loop& loop_;
  session::Session& session_;
  std::string language_;
  LineWriter out_;
  async::Event reader_gone_;
  std::list<std::pair<std::string, std::shared_ptr<session::Run>>> runs_;  // that are on or wait, by request id
  async::TaskGroup work_;
};

}  // namespace cella::cli
