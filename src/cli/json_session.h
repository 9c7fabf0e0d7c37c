// A session driven by a program: one JSON request a line in, one answer a line out (docs/sessions.md). Requests are
// taken while a run is on, so that it can be interrupted, cancelled or answered.
#pragma once

#include <string>

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

  async::Loop& loop_;
  session::Session& session_;
  std::string language_;
  LineWriter out_;
  async::Event reader_gone_;
  async::TaskGroup work_;
};

}  // namespace cella::cli
