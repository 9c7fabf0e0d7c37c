#include "session/fold.h"

#include "base/text.h"
#include "language/filename.h"

namespace cella::session {
namespace {

struct Folder {
  RunResult& result;

  void operator()(StartedEvent& started) const { result.isolation = std::move(started.isolation); }
  void operator()(OutputEvent& output) const {
    (output.stream == Stream::kStdout ? result.stdout_text : result.stderr_text) += output.bytes;
  }
  void operator()(TruncatedEvent& truncated) const {
    bool out = truncated.stream == Stream::kStdout;
    (out ? result.stdout_dropped : result.stderr_dropped) += truncated.dropped;
    (out ? result.stdout_text : result.stderr_text) += fmt::format("\n[... {} bytes dropped ...]\n", truncated.dropped);
  }
  void operator()(FileEvent& file) const { result.files.push_back(std::move(file.change)); }
  void operator()(FilesIncompleteEvent&) const { result.files_complete = false; }
  void operator()(FinishedEvent& finished) const {
    result.outcome = std::move(finished.outcome);
    result.state = finished.state;
  }
};

}  // namespace

async::Task<bool> ResultFold::Emit(Event event) {
  std::visit(Folder{result_}, event);
  co_return true;
}

RunResult ResultFold::Take() {
  result_.stdout_text = ToUtf8Lossy(result_.stdout_text);
  result_.stderr_text = ToUtf8Lossy(result_.stderr_text);
  return std::move(result_);
}

std::string NewRunId() { return "run_" + language::RandomHex(32); }

}  // namespace cella::session
