// From messages of a kernel to the events and the answer of a run. Pure.
#pragma once

#include <optional>
#include <string>

#include "cella/event.h"
#include "jupyter/json.h"
#include "run/judge.h"

namespace cella::executor {

// The event for an iopub message; nothing: it has none.
std::optional<Event> ToEvent(const std::string& type, const jupyter::Json& content);

// "display" data of a message as a bundle; a value that is no text is kept as JSON.
MimeBundle ToBundle(const jupyter::Json& content);

// The end of a run as its execute_reply reports it.
struct ReplyAnswer {
  run::GuestAnswer answer;
  std::optional<RunError> error;  // of the code; absent where it asked to exit
  std::string message;            // that it exits with, for standard error
  std::string pager;              // help text that it asks to show
  bool kernel_exits = false;
};
ReplyAnswer ToAnswer(const jupyter::Json& content);

// Without the escape sequences of terminals.
std::string StripAnsi(std::string_view text);

}  // namespace cella::executor
