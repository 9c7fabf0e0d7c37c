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

struct FileEvent {
  FileChange change;
};

// The list of files is incomplete: the workspace holds more than is looked at.
struct FilesIncompleteEvent {};

struct FinishedEvent {
  Outcome outcome;
  StateAfter state = StateAfter::kNone;
};

using Event = std::variant<StartedEvent, OutputEvent, TruncatedEvent, FileEvent, FilesIncompleteEvent, FinishedEvent>;

}  // namespace cella
