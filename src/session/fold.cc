#include "session/fold.h"

#include "base/random.h"
#include "base/text.h"

namespace cella::session {
namespace {

// Beyond these bounds no caller would read the Result.
constexpr size_t kMaxOutputs = 1024;
constexpr size_t kMaxOutputBytes = size_t{32} << 20;
// Of an output that does not fit, a text this short stays.
constexpr size_t kShortData = 4096;
// A guest chooses the types. No more are named, and no longer ones.
constexpr size_t kMostNamed = 64;
constexpr size_t kLongestType = 256;
// A display with a longer id is shown and cannot be updated: ids are kept until the run ends.
constexpr size_t kLongestDisplayId = 1024;

// Adds what was written since the last output.
void CloseTexts(RunResult& result) {
  size_t out = 0, err = 0;
  for (const ResultItem& item : result.items) {
    if (item.kind == ResultItem::Kind::kStdout) out = item.end;
    if (item.kind == ResultItem::Kind::kStderr) err = item.end;
  }
  if (result.stdout_text.size() > out)
    result.items.push_back({ResultItem::Kind::kStdout, out, result.stdout_text.size()});
  if (result.stderr_text.size() > err)
    result.items.push_back({ResultItem::Kind::kStderr, err, result.stderr_text.size()});
}

// Decodes piece by piece, so that the pieces of the items stay what they are.
void DecodeText(std::string& text, std::vector<ResultItem>& items, ResultItem::Kind kind) {
  std::string decoded;
  size_t done = 0;
  for (ResultItem& item : items) {
    if (item.kind != kind) continue;
    const size_t begin = decoded.size();
    decoded += ToUtf8Lossy(std::string_view(text).substr(item.begin, item.end - item.begin));
    done = item.end;
    item.begin = begin;
    item.end = decoded.size();
  }
  decoded += ToUtf8Lossy(std::string_view(text).substr(done));
  text = std::move(decoded);
}

struct Folder {
  RunResult& result;
  std::vector<std::pair<std::string, size_t>>& shown;
  size_t* output_bytes;
  std::optional<std::pair<size_t, MimeBundle>>* left_out;

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
    const bool can_be_updated = !display.display_id.empty() && display.display_id.size() <= kLongestDisplayId;
    if (AddOutput(std::move(display.bundle)) && can_be_updated) {
      shown.emplace_back(display.display_id, result.outputs.size() - 1);
    }
  }
  // How it ended says it again.
  void operator()(ErrorEvent&) const {}
  void operator()(InputRequestEvent&) const {}
  void operator()(ProgressEvent&) const {}
  void operator()(FileEvent& file) const { result.files.push_back(std::move(file.change)); }
  void operator()(FilesIncompleteEvent&) const { result.files_complete = false; }
  void operator()(ToolEvent&) const {}
  void operator()(FinishedEvent& finished) const {
    result.outcome = std::move(finished.outcome);
    result.state = finished.state;
    result.checkpoint = std::move(finished.checkpoint);
    result.outputs_dropped += finished.outcome.displays_dropped;
  }

  bool AddOutput(MimeBundle bundle) const {
    if (result.outputs.size() >= kMaxOutputs) {
      ++result.outputs_dropped;
      return false;
    }
    const size_t index = result.outputs.size();
    CloseTexts(result);
    result.items.push_back({ResultItem::Kind::kOutput, index, 0});
    const size_t size = SizeOf(bundle);
    if (*output_bytes + size > kMaxOutputBytes) {
      ++result.outputs_dropped;
      result.outputs.push_back(WithoutLargeData(bundle));
      left_out->emplace(index, std::move(bundle));
    } else {
      *output_bytes += size;
      result.outputs.push_back(std::move(bundle));
    }
    return true;
  }
};

}  // namespace

MimeBundle WithoutLargeData(const MimeBundle& bundle) {
  MimeBundle rest;
  rest.left_out = bundle.left_out;
  for (const auto& [type, data] : bundle.data) {
    if (type == "text/plain" && data.size() <= kShortData) {
      rest.data.emplace_back(type, data);
    } else if (type.size() <= kLongestType && rest.left_out.size() < kMostNamed) {
      rest.left_out.emplace_back(type, data.size());
    }
  }
  if (bundle.metadata.size() <= kShortData) rest.metadata = bundle.metadata;
  return rest;
}

async::Task<bool> ResultFold::Emit(Event event) {
  std::visit(Folder{result_, shown_, &output_bytes_, &left_out_}, event);
  if (left_out_) {
    auto [index, bundle] = *std::exchange(left_out_, std::nullopt);
    if (keep_) co_await keep_(index, std::move(bundle));
  }
  co_return true;
}

RunResult ResultFold::Take() {
  if (!result_.items.empty()) CloseTexts(result_);
  DecodeText(result_.stdout_text, result_.items, ResultItem::Kind::kStdout);
  DecodeText(result_.stderr_text, result_.items, ResultItem::Kind::kStderr);
  return std::move(result_);
}

std::string NewRunId() { return "run_" + RandomHex(32); }
std::string NewSessionId() { return "ses_" + RandomHex(32); }

}  // namespace cella::session
