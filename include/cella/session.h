// Sessions of the C++ library: a guest with its state and files, and its runs. A layer of inline functions over
// cella.h, so that compiler and standard library are the application's own (C++20 or later). Handles can be moved; any
// thread may use one, as long as it lives. docs/library.md explains it.
//
//   auto session = cella::Session::Open(cella::Policy{});
//   auto result = session->Run("6 * 7");
//   result->value;  // "42"
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cella.h"
#include "cella/detail/policy_document.h"
#include "cella/detail/values.h"
#include "cella/engine.h"
#include "cella/event.h"
#include "cella/expected.h"
#include "cella/outcome.h"
#include "cella/policy.h"
#include "cella/run.h"
#include "cella/session_options.h"
#include "cella/tools.h"
#include "cella/words.h"

namespace cella {

// A run that is on. Its events come one by one; without its handle it goes on, and its events are dropped.
class Run {
 public:
  // Waits for the next event; no value: there are no more. The guest waits while many events are not taken.
  Expected<std::optional<Event>> Next() {
    cella_event* event = nullptr;
    cella_error* error = nullptr;
    switch (cella_run_next(handle_.get(), -1, &event, &error)) {
      case CELLA_NEXT_EVENT: break;
      case CELLA_NEXT_ERROR: return detail::TakeFailure(error);
      default: return std::optional<Event>();
    }
    const detail::Handle<cella_event> owned(event);
    return std::optional<Event>(detail::ToEvent(event));
  }
  // Waits for the end. Events that were not taken are dropped.
  Expected<RunResult> Wait() {
    cella_error* error = nullptr;
    const detail::Handle<cella_result> result(cella_run_wait(handle_.get(), &error));
    if (!result) return detail::TakeFailure(error);
    return detail::ToResult(result.get());
  }
  // The next run is not touched, also when this one is over.
  void Cancel() { cella_run_cancel(handle_.get()); }
  // The code may catch it: KeyboardInterrupt.
  void Interrupt() { cella_run_interrupt(handle_.get()); }
  // To an input request; no text: there is no more input.
  Expected<void> Reply(const std::optional<std::string>& text) {
    return detail::Try([&](cella_error** error) {
      return cella_run_reply(handle_.get(), text ? text->data() : nullptr, text ? text->size() : 0, error);
    });
  }

 private:
  friend class Session;
  explicit Run(cella_run* run) : handle_(run) {}
  detail::Handle<cella_run> handle_;
};

struct FileInfo {
  std::string name;
  uint64_t size = 0;
  bool is_directory = false;
};

class Session {
 public:
  // `engine` null: the one of this process.
  static Expected<Session> Open(const Policy& policy, const Engine* engine = nullptr) {
    SessionOptions spec;
    spec.policy = policy;
    return Open(spec, engine);
  }
  static Expected<Session> Open(const SessionOptions& spec, const Engine* engine = nullptr) {
    Expected<std::string> document = detail::ToDocument(spec);
    if (!document) return document.error();
    return OpenDocument(*document, engine);
  }
  // From the JSON document of docs/server.md.
  static Expected<Session> OpenDocument(const std::string& policy, const Engine* engine = nullptr) {
    cella_error* error = nullptr;
    cella_session* session = cella_session_open(engine ? engine->handle() : nullptr, policy.c_str(), &error);
    if (session == nullptr) return detail::TakeFailure(error);
    return Session(session);
  }

  // Python code to its end. What the code does is in the result.
  Expected<RunResult> Run(std::string_view code) {
    cella_error* error = nullptr;
    const detail::Handle<cella_result> result(cella_session_run(handle_.get(), code.data(), code.size(), &error));
    if (!result) return detail::TakeFailure(error);
    return detail::ToResult(result.get());
  }
  Expected<RunResult> Run(const RunSpec& spec) {
    const auto asked = detail::FromSpec(spec);
    if (!asked) return asked.error();
    cella_error* error = nullptr;
    const detail::Handle<cella_result> result(cella_session_run_spec(handle_.get(), asked->get(), &error));
    if (!result) return detail::TakeFailure(error);
    return detail::ToResult(result.get());
  }
  // Returns once the run is queued.
  Expected<cella::Run> Start(const RunSpec& spec) {
    const auto asked = detail::FromSpec(spec);
    if (!asked) return asked.error();
    cella_error* error = nullptr;
    cella_run* run = cella_session_start(handle_.get(), asked->get(), &error);
    if (run == nullptr) return detail::TakeFailure(error);
    return cella::Run(run);
  }
  Expected<cella::Run> Start(std::string code) {
    RunSpec spec;
    spec.blocks.push_back({"python", std::move(code)});
    return Start(spec);
  }

  // Forgets all variables; files stay.
  Expected<void> Reset() {
    return detail::Try([&](cella_error** error) { return cella_session_reset(handle_.get(), error); });
  }
  Expected<void> SaveCheckpoint(const std::string& name) {
    return detail::Try(
        [&](cella_error** error) { return cella_session_save_checkpoint(handle_.get(), name.c_str(), error); });
  }
  Expected<void> Rollback(const std::string& name) {
    return detail::Try([&](cella_error** error) { return cella_session_rollback(handle_.get(), name.c_str(), error); });
  }
  Expected<void> DropCheckpoint(const std::string& name) {
    return detail::Try(
        [&](cella_error** error) { return cella_session_drop_checkpoint(handle_.get(), name.c_str(), error); });
  }
  Expected<std::vector<std::string>> Checkpoints() {
    cella_error* error = nullptr;
    const detail::Handle<cella_listing> listing(cella_session_checkpoints(handle_.get(), &error));
    if (!listing) return detail::TakeFailure(error);
    std::vector<std::string> names;
    for (FileInfo& each : ToList(listing.get())) names.push_back(std::move(each.name));
    return names;
  }

  // Paths are relative to the workspace.
  Expected<std::string> ReadFile(const std::string& path) {
    cella_error* error = nullptr;
    const detail::Handle<cella_bytes> bytes(cella_session_read_file(handle_.get(), path.c_str(), &error));
    if (!bytes) return detail::TakeFailure(error);
    return std::string(static_cast<const char*>(cella_bytes_data(bytes.get())), cella_bytes_size(bytes.get()));
  }
  Expected<void> WriteFile(const std::string& path, std::string_view content) {
    return detail::Try([&](cella_error** error) {
      return cella_session_write_file(handle_.get(), path.c_str(), content.data(), content.size(), error);
    });
  }
  // A directory with all that is in it.
  Expected<void> RemoveFile(const std::string& path) {
    return detail::Try(
        [&](cella_error** error) { return cella_session_remove_file(handle_.get(), path.c_str(), error); });
  }
  Expected<std::vector<FileInfo>> ListFiles(const std::string& directory = "") {
    cella_error* error = nullptr;
    const detail::Handle<cella_listing> listing(cella_session_list_files(handle_.get(), directory.c_str(), &error));
    if (!listing) return detail::TakeFailure(error);
    return ToList(listing.get());
  }

  // Functions of this program that the code calls.
  Tools tools() { return Tools(handle_.get()); }

  std::string id() const { return cella_session_id(handle_.get()); }
  // A word of docs/executors.md, as "state"; false for any other.
  bool Supports(const std::string& word) const { return cella_session_supports(handle_.get(), word.c_str()); }
  Isolation isolation() const { return detail::ToIsolation(cella_session_isolation(handle_.get())); }

  // Ends what runs, the guest and its files, and waits for that. The destructor does the same.
  Expected<void> Close() {
    return detail::Try([&](cella_error** error) { return cella_session_close(handle_.get(), error); });
  }

 private:
  explicit Session(cella_session* session) : handle_(session) {}

  static std::vector<FileInfo> ToList(const cella_listing* listing) {
    std::vector<FileInfo> files(cella_listing_count(listing));
    for (size_t i = 0; i < files.size(); ++i) {
      size_t size = 0;
      const char* name = cella_listing_name(listing, i, &size);
      files[i] = {std::string(name, size), cella_listing_file_size(listing, i), cella_listing_is_directory(listing, i)};
    }
    return files;
  }

  detail::Handle<cella_session> handle_;
};

}  // namespace cella
