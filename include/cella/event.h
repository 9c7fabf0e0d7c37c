// What a run emits, in order. Every surface (plain output, JSON, NDJSON, HTTP) is a rendering of this one stream.
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

// Bytes, not text: decoding is the renderer's business.
struct OutputEvent {
  Stream stream = Stream::kStdout;
  std::string bytes;
};

// Output beyond the cap was dropped; what follows of this stream is its tail.
struct TruncatedEvent {
  Stream stream = Stream::kStdout;
  uint64_t dropped = 0;
};

// What the last expression of a cell gave.
struct ValueEvent {
  std::string text;
  MimeBundle bundle;
};

struct DisplayEvent {
  MimeBundle bundle;
  std::string display_id;  // empty: it has none
  bool update = false;     // replaces what was displayed under that id
};

struct ErrorEvent {
  RunError error;
};

// The code waits for a line of text.
struct InputRequestEvent {
  std::string prompt;
  bool password = false;
};

struct FileEvent {
  FileChange change;
};

// The list of files is incomplete: the workspace holds more than is looked at.
struct FilesIncompleteEvent {};

struct FinishedEvent {
  Outcome outcome;
  StateAfter state = StateAfter::kNone;
  std::string checkpoint = "off";  // what stood behind this run: "taken", "off", "skipped: reason"
};

using Event = std::variant<StartedEvent, OutputEvent, TruncatedEvent, ValueEvent, DisplayEvent, ErrorEvent,
                           InputRequestEvent, FileEvent, FilesIncompleteEvent, FinishedEvent>;

}  // namespace cella
