#include "session/fold.h"

#include "base/random.h"
#include "base/text.h"

namespace cella::session {
namespace {

// Beyond these a Result would not be one that anybody reads.
constexpr size_t kMaxOutputs = 1024;
constexpr size_t kMaxOutputBytes = size_t{32} << 20;

struct Folder {
  RunResult& result;
  std::vector<std::pair<std::string, size_t>>& shown;
  size_t* output_bytes;

  void operator()(StartedEvent& started) const { result.isolation = std::move(started.isolation); }
  void operator()(OutputEvent& output) const {
    (output.stream == Stream::kStdout ? result.stdout_text : result.stderr_text) += output.bytes;
  }
  void operator()(TruncatedEvent& truncated) const {
    bool out = truncated.stream == Stream::kStdout;
    (out ? result.stdout_dropped : result.stderr_dropped) += truncated.dropped;
    (out ? result.stdout_text : result.stderr_text) += fmt::format("\n[... {} bytes dropped ...]\n", truncated.dropped);
  }
  void operator()(ValueEvent& value) const {
    result.value = std::move(value.text);
    AddOutput(std::move(value.bundle));
  }
  void operator()(DisplayEvent& display) const {
    if (display.clear) {
      result.outputs.clear();
      shown.clear();
      *output_bytes = 0;
      return;
    }
    if (display.update && !display.display_id.empty()) {
      // Every place where it was shown.
      for (const auto& [id, index] : shown) {
        if (id != display.display_id) continue;
        *output_bytes += SizeOf(display.bundle) - SizeOf(result.outputs[index]);
        if (*output_bytes > kMaxOutputBytes) {
          ++result.outputs_dropped;
          *output_bytes -= SizeOf(display.bundle) - SizeOf(result.outputs[index]);
          continue;
        }
        result.outputs[index] = display.bundle;
      }
      return;
    }
    *output_bytes += display.display_id.size();
    if (AddOutput(std::move(display.bundle)) && !display.display_id.empty()) {
      shown.emplace_back(display.display_id, result.outputs.size() - 1);
    }
  }
  // How it ended says it again.
  void operator()(ErrorEvent&) const {}
  void operator()(InputRequestEvent&) const {}
  void operator()(FileEvent& file) const { result.files.push_back(std::move(file.change)); }
  void operator()(FilesIncompleteEvent&) const { result.files_complete = false; }
  void operator()(FinishedEvent& finished) const {
    result.outcome = std::move(finished.outcome);
    result.state = finished.state;
    result.checkpoint = std::move(finished.checkpoint);
    result.outputs_dropped += finished.outcome.displays_dropped;
  }

  bool AddOutput(MimeBundle bundle) const {
    const size_t size = SizeOf(bundle);
    if (result.outputs.size() >= kMaxOutputs || *output_bytes + size > kMaxOutputBytes) {
      ++result.outputs_dropped;
      return false;
    }
    *output_bytes += size;
    result.outputs.push_back(std::move(bundle));
    return true;
  }
};

}  // namespace

async::Task<bool> ResultFold::Emit(Event event) {
  std::visit(Folder{result_, shown_, &output_bytes_}, event);
  co_return true;
}

RunResult ResultFold::Take() {
  result_.stdout_text = ToUtf8Lossy(result_.stdout_text);
  result_.stderr_text = ToUtf8Lossy(result_.stderr_text);
  return std::move(result_);
}

std::string NewRunId() { return "run_" + RandomHex(32); }
std::string NewSessionId() { return "ses_" + RandomHex(32); }

}  // namespace cella::session
