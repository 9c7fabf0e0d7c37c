// The events of a run, in order. Plain output, JSON, NDJSON and HTTP are renderings of this one stream.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "cella/outcome.h"

namespace cella {

enum class Stream { kStdout, kStderr };

std::string_view ToString(Stream stream);

struct StartedEvent {
  std::string language;
  Isolation isolation;
};

// Bytes, not text: the renderer decodes them.
struct OutputEvent {
  Stream stream = Stream::kStdout;
  std::string bytes;
};

// Output beyond the cap was dropped. Later output events of this stream contain its tail.
struct TruncatedEvent {
  Stream stream = Stream::kStdout;
  uint64_t dropped = 0;
};

// The value of a cell's last expression.
struct ValueEvent {
  std::string text;
  MimeBundle bundle;
};

struct DisplayEvent {
  MimeBundle bundle;
  std::string display_id;  // empty: none
  bool update = false;     // replaces the earlier display with that id
  bool clear = false;      // shows nothing: what this run displayed before is withdrawn
};

struct ErrorEvent {
  RunError error;
};

// The code waits for a line of input.
struct InputRequestEvent {
  std::string prompt;
  bool password = false;
};

struct FileEvent {
  FileChange change;
};

// The list of files is incomplete, because the workspace exceeds the bounds of the scan.
struct FilesIncompleteEvent {};

// Packages are being installed for the code that waits for them.
struct ProgressEvent {
  std::string text;  // "Downloading numpy (16.1MiB)"
};

struct FinishedEvent {
  Outcome outcome;
  StateAfter state = StateAfter::kNone;
  std::string checkpoint = "off";  // the one before this run: "taken", "off", "skipped: reason"
};

// The code called the host, and the call has ended. Arguments and results are not in it: they may be secrets.
struct ToolEvent {
  std::string space;   // the namespace: "tools", "deps"
  std::string name;    // of the operation
  std::string status;  // "ok", "error", "refused", "cancelled"
  double wall_ms = 0;
};

using Event = std::variant<StartedEvent, OutputEvent, TruncatedEvent, ValueEvent, DisplayEvent, ErrorEvent,
                           InputRequestEvent, FileEvent, FilesIncompleteEvent, FinishedEvent, ProgressEvent, ToolEvent>;

}  // namespace cella
