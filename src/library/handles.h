// What the opaque handles of cella.h are, and what every exported function does around its work: no exception leaves,
// and a child of fork touches nothing of its parent's.
#pragma once

#include <cella.h>

#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "async/caught.h"
#include "library/host.h"
#include "library/run_core.h"
#include "library/session_core.h"

struct cella_error {
  cella::Error error;
};
struct cella_engine {
  std::shared_ptr<cella::library::Host> host;
};
struct cella_session {
  std::shared_ptr<cella::library::Host> host;
  std::shared_ptr<cella::library::SessionCore> core;
};
struct cella_run_spec {
  cella::RunSpec spec;
};
struct cella_run {
  std::shared_ptr<cella::library::Host> host;
  std::shared_ptr<cella::library::RunCore> core;
  std::shared_ptr<const cella::library::ServingThreads> serving;
  bool is_in_this_process = false;  // where its code runs
};
struct cella_event {
  cella::Event event;
  std::optional<cella::Outcome> failure = std::nullopt;  // of an error event
};
struct cella_result {
  cella::RunResult result;
  std::string json;
};
struct cella_bytes {
  std::string content;
};
struct cella_listing {
  struct Entry {
    std::string name;
    uint64_t size = 0;
    bool is_directory = false;
  };
  std::vector<Entry> entries;
  bool complete = true;
};

namespace cella::library {

inline void Tell(Error error, cella_error** into) noexcept {
  if (into != nullptr) *into = new (std::nothrow) cella_error{std::move(error)};
}

// Calls `work`, which gives a Result; its failure, or the exception that it left with, goes to `error`.
template <typename Work>
auto Guarded(cella_error** error, Work work) noexcept -> decltype(work()) {
  if (error != nullptr) *error = nullptr;
  using Answer = decltype(work());
  try {
    Answer answer = work();
    if (!answer) Tell(answer.error(), error);
    return answer;
  } catch (...) {
    Error failure{ErrorCode::kInternal, {}, 0};
    try {
      failure.message = async::ExceptionText();
    } catch (...) {
      failure.code = ErrorCode::kExhausted;
    }
    Tell(failure, error);
    return std::unexpected(std::move(failure));
  }
}

// What waits for its turn in a session must not be called by a tool that the session's code is waiting for.
inline Status CheckMayWaitForTurn(const ServingThreads& serving) {
  if (!serving.HasThis()) return {};
  return Err(ErrorCode::kInvalid,
             "a tool cannot wait for the session that calls it, which would wait for itself: open another session");
}

inline std::string TextOf(const char* text) { return text == nullptr ? "" : text; }
inline std::string TextOf(const char* text, size_t size) { return text == nullptr ? "" : std::string(text, size); }

// The engine of this process; made on first use, never ended but by the end of the process.
Result<std::shared_ptr<Host>> SharedHost();
// One of the caller's own.
Result<std::shared_ptr<Host>> NewHost();

}  // namespace cella::library
