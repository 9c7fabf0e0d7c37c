// The storage of a session: its artifacts and workflows, with the words that its code has for them.
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/json.h"
#include "os/io.h"
#include "server/answer.h"
#include "server/hosted_sessions.h"
#include "server/json_input.h"
#include "server/operations.h"
#include "storage/json.h"
#include "storage/names.h"
#include "storage/service.h"
#include "storage/spaces.h"

namespace cella::server {
namespace {

using Json = nlohmann::ordered_json;
using storage::FileStorage;

constexpr size_t kChunk = size_t{256} << 10;
constexpr size_t kMaxPage = 1000;
constexpr uint64_t kMaxDocument = uint64_t{1} << 20;
constexpr std::string_view kArtifact = "artifact", kWorkflow = "workflow";
constexpr std::string_view kText = "text/plain; charset=utf-8";
constexpr std::string_view kJson = "application/json";

// With a code that names the subject: "artifact_not_found", "workflow_failed".
ApiError Failed(const Hub& hub, const Call& call, const Error& error, std::string_view subject) {
  ApiError failed = ToApiError(error);
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (session && (*session)->storage()) {
    failed.message = storage::WithoutPath(std::move(failed.message), (*session)->storage()->storage->path());
  }
  failed.code = fmt::format("{}_{}", subject, error.code == ErrorCode::kNotFound ? "not_found" : "failed");
  // A full storage is not full for a moment only.
  if (error.code == ErrorCode::kExhausted) failed.status = 413;
  return failed;
}

async::Task<Answer<std::shared_ptr<FileStorage>>> Find(Hub& hub, Call& call) {
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return std::unexpected(std::move(session.error()));
  if (!(*session)->storage()) {
    co_return Conflict("this session has no storage", "open it with the key 'storage'");
  }
  co_return (*session)->storage()->storage;
}

std::string NameOf(const Call& call) { return call.exchange.request().target().Rest(call.rest); }

std::string Parameter(const Call& call, std::string_view name) {
  return std::string(call.exchange.request().parameter(name).value_or(""));
}

Answer<size_t> Limit(const Call& call, size_t otherwise) {
  const std::string text = Parameter(call, "limit");
  size_t limit = otherwise;
  if (!text.empty()) {
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), limit);
    if (error != std::errc() || end != text.data() + text.size() || limit == 0 || limit > kMaxPage) {
      return Invalid(fmt::format("limit: a number from 1 to {}", kMaxPage));
    }
  }
  return limit;
}

// Does the work on a thread; refuses, or answers with what it gives.
template <typename F>
async::Task<void> AnswerFrom(Hub& hub, Call& call, const FileStorage& storage, int status, std::string_view subject,
                             F work) {
  auto text = [&]() -> Result<std::string> {
    TRY(const Json json, work());
    return ToText(json);
  };
  auto answer = co_await hub.storages.Run(storage, text);
  if (!answer) co_return co_await Refuse(call.exchange, Failed(hub, call, answer.error(), subject));
  (void)co_await call.exchange.SendJson(status, *answer);
}

async::Task<void> RemoveOr404(Hub& hub, Call& call, std::string_view subject, const Result<bool>& removed) {
  const Error none{ErrorCode::kNotFound, "there is none of that name", 0};
  if (!removed) co_return co_await Refuse(call.exchange, Failed(hub, call, removed.error(), subject));
  if (!*removed) co_return co_await Refuse(call.exchange, Failed(hub, call, none, subject));
  (void)co_await call.exchange.Send(204, {}, "");
}

async::Task<void> ListArtifacts(Hub& hub, Call& call) {
  auto storage = co_await Find(hub, call);
  if (!storage) co_return co_await Refuse(call.exchange, std::move(storage.error()));
  auto limit = Limit(call, kMaxPage);
  if (!limit) co_return co_await Refuse(call.exchange, std::move(limit.error()));
  const std::string after = Parameter(call, "after");
  auto list = [&]() -> Result<Json> {
    TRY(const auto page, (*storage)->List(after, *limit));
    return storage::ToJson(page);
  };
  co_await AnswerFrom(hub, call, **storage, 200, kArtifact, list);
}

async::Task<void> ShowArtifact(Hub& hub, Call& call, std::shared_ptr<FileStorage> storage, std::string name) {
  auto show = [&]() -> Result<Json> {
    TRY(const auto artifact, storage->Get(name));
    if (!artifact) return Err(ErrorCode::kNotFound, "there is no artifact of that name");
    return storage::ToJson(*artifact);
  };
  co_await AnswerFrom(hub, call, *storage, 200, kArtifact, show);
}

// The file itself for a client who shares the file system, else a copy in the workspace.
async::Task<void> ShowPath(Hub& hub, Call& call, std::shared_ptr<FileStorage> storage, std::string name) {
  if (hub.config.allow.whole_machine) {
    auto find = [&]() -> Result<Json> {
      TRY(std::string path, storage->PathOf(name));
      return Json{{"path", std::move(path)}};
    };
    co_return co_await AnswerFrom(hub, call, *storage, 200, kArtifact, find);
  }
  auto session = hub.sessions.Find(call.parameters[0], call.client);
  if (!session) co_return co_await Refuse(call.exchange, std::move(session.error()));
  const os::Directory* theirs = (*session)->engine().workspace();
  if (theirs == nullptr) {
    auto none = Conflict("this session has no workspace for a copy", "load the artifact");
    co_return co_await Refuse(call.exchange, std::move(none.error()));
  }
  auto workspace = theirs->Duplicate();
  if (!workspace) co_return co_await Refuse(call.exchange, Failed(hub, call, workspace.error(), kArtifact));
  auto copy = [&]() -> Result<Json> {
    TRY(std::string file, storage::CopyIntoWorkspace(*storage, *workspace, name));
    return Json{{"file", std::move(file)}};
  };
  co_await AnswerFrom(hub, call, *storage, 200, kArtifact, copy);
}

async::Task<void> LoadArtifact(Hub& hub, Call& call) {
  auto storage = co_await Find(hub, call);
  if (!storage) co_return co_await Refuse(call.exchange, std::move(storage.error()));
  const std::string name = NameOf(call);
  if (Parameter(call, "path") == "true") co_return co_await ShowPath(hub, call, *storage, name);
  if (Parameter(call, "info") == "true") co_return co_await ShowArtifact(hub, call, *storage, name);
  auto load = [&] { return (*storage)->Load(name); };
  auto loaded = co_await hub.storages.Run(**storage, load);
  if (!loaded) co_return co_await Refuse(call.exchange, Failed(hub, call, loaded.error(), kArtifact));
  using storage::Kind;
  const Kind kind = loaded->info.kind;
  const std::string length = std::to_string(loaded->info.size);
  const std::vector<http::Header> headers = {
      {"Content-Type", kind == Kind::kText   ? kText
                       : kind == Kind::kJson ? kJson
                                             : std::string_view("application/octet-stream")},
      {"Content-Length", length},
      {"X-Cella-Kind", storage::ToString(kind)},
      // Guests choose the content: no browser shall run it in our name.
      {"Content-Disposition", "attachment"},
      {"X-Content-Type-Options", "nosniff"}};
  auto begun = co_await call.exchange.Begin(200, headers);
  std::string buffer(kChunk, '\0');
  for (uint64_t left = loaded->info.size; begun && left > 0;) {
    auto read_some = [&]() -> Result<size_t> {
      const ssize_t count = ::read(loaded->file.get(), buffer.data(), std::min<uint64_t>(buffer.size(), left));
      if (count < 0) return SysErr(errno, "read an artifact");
      return static_cast<size_t>(count);
    };
    auto count = co_await hub.storages.Run(**storage, read_some);
    // A file that people change meanwhile; ours are replaced, never changed.
    if (!count || *count == 0) co_return call.exchange.Abort();
    left -= *count;
    begun = co_await call.exchange.Write(std::string_view(buffer).substr(0, *count));
  }
  if (begun) (void)co_await call.exchange.End();
}

Answer<FileStorage::Details> DetailsOf(const Call& call) {
  FileStorage::Details details;
  details.description = Parameter(call, "description");
  if (const std::string metadata = Parameter(call, "metadata"); !metadata.empty()) details.metadata = metadata;
  const std::string_view type = call.exchange.request().header("Content-Type").value_or("");
  const std::string kind = Parameter(call, "kind");
  if (!kind.empty()) {
    const auto parsed = storage::ParseKind(kind);
    if (!parsed) return Invalid("kind: there are text, bytes and json");
    details.kind = *parsed;
  } else if (type.starts_with("text/")) {
    details.kind = storage::Kind::kText;
  } else if (type.starts_with(kJson)) {
    details.kind = storage::Kind::kJson;
  }
  return details;
}

async::Task<void> SaveArtifact(Hub& hub, Call& call) {
  auto storage = co_await Find(hub, call);
  if (!storage) co_return co_await Refuse(call.exchange, std::move(storage.error()));
  auto details = DetailsOf(call);
  if (!details) co_return co_await Refuse(call.exchange, std::move(details.error()));
  const uint64_t announced = call.exchange.request().content_length().value_or(0);
  if (announced > std::min(hub.config.server.max_body, (*storage)->bounds().artifact_bytes)) {
    co_return co_await Refuse(call.exchange, {413, "artifact_failed", "the artifact is too large", "", std::nullopt});
  }
  const std::string name = NameOf(call);
  auto begin = [&] { return (*storage)->BeginSave(name); };
  auto upload = co_await hub.storages.Run(**storage, begin);
  if (!upload) co_return co_await Refuse(call.exchange, Failed(hub, call, upload.error(), kArtifact));
  for (;;) {
    auto part = co_await call.exchange.ReadSome();
    if (!part) co_return;
    if (part->empty()) break;
    const std::string_view bytes = *part;
    auto write = [&] { return upload->Write(bytes); };
    auto written = co_await hub.storages.Run(**storage, write);
    if (!written) co_return co_await Refuse(call.exchange, Failed(hub, call, written.error(), kArtifact));
  }
  auto commit = [&]() -> Result<Json> {
    TRY(const auto artifact, upload->Commit(*details));
    return storage::ToJson(artifact);
  };
  co_await AnswerFrom(hub, call, **storage, 201, kArtifact, commit);
}

async::Task<void> DeleteArtifact(Hub& hub, Call& call) {
  auto storage = co_await Find(hub, call);
  if (!storage) co_return co_await Refuse(call.exchange, std::move(storage.error()));
  const std::string name = NameOf(call);
  auto remove = [&] { return (*storage)->Delete(name); };
  auto removed = co_await hub.storages.Run(**storage, remove);
  co_await RemoveOr404(hub, call, kArtifact, removed);
}

async::Task<void> ListWorkflows(Hub& hub, Call& call) {
  auto storage = co_await Find(hub, call);
  if (!storage) co_return co_await Refuse(call.exchange, std::move(storage.error()));
  auto limit = Limit(call, 10);
  if (!limit) co_return co_await Refuse(call.exchange, std::move(limit.error()));
  const auto query = call.exchange.request().parameter("query");
  auto list = [&]() -> Result<Json> {
    TRY(const auto workflows, query ? (*storage)->SearchWorkflows(*query, *limit) : (*storage)->ListWorkflows());
    return storage::ToJson(workflows);
  };
  co_await AnswerFrom(hub, call, **storage, 200, kWorkflow, list);
}

async::Task<void> ShowWorkflow(Hub& hub, Call& call) {
  auto storage = co_await Find(hub, call);
  if (!storage) co_return co_await Refuse(call.exchange, std::move(storage.error()));
  const std::string name(call.parameters[1]);
  auto show = [&]() -> Result<Json> {
    TRY(const auto workflow, (*storage)->GetWorkflow(name));
    if (!workflow) return Err(ErrorCode::kNotFound, "there is no workflow of that name");
    return storage::ToJson(*workflow);
  };
  co_await AnswerFrom(hub, call, **storage, 200, kWorkflow, show);
}

async::Task<void> SaveWorkflow(Hub& hub, Call& call) {
  auto storage = co_await Find(hub, call);
  if (!storage) co_return co_await Refuse(call.exchange, std::move(storage.error()));
  auto body = co_await ReadJsonBody(hub.work, call.exchange, kMaxDocument);
  if (!body) co_return;
  std::string source, description;
  bool sound = true;
  for (const auto& [key, value] : body->items()) {
    sound = sound && (key == "source" || key == "description") && value.is_string();
    if (sound) (key == "source" ? source : description) = value.get<std::string>();
  }
  if (!sound || source.empty()) {
    co_return co_await Refuse(call.exchange, Invalid("'source' is needed: text; 'description' may be there").error());
  }
  const std::string name(call.parameters[1]);
  auto create = [&]() -> Result<Json> {
    TRY(const auto made, (*storage)->CreateWorkflow(name, source, description, storage::Origin::kCaller));
    return storage::ToJson(made);
  };
  co_await AnswerFrom(hub, call, **storage, 201, kWorkflow, create);
}

async::Task<void> DeleteWorkflow(Hub& hub, Call& call) {
  auto storage = co_await Find(hub, call);
  if (!storage) co_return co_await Refuse(call.exchange, std::move(storage.error()));
  const std::string name(call.parameters[1]);
  auto remove = [&] { return (*storage)->DeleteWorkflow(name); };
  auto removed = co_await hub.storages.Run(**storage, remove);
  co_await RemoveOr404(hub, call, kWorkflow, removed);
}

}  // namespace

void AddStorageOperations(Hub& hub, Router* router) {
  const RouteAdder add(hub, router);
  add("GET", "/v1/sessions/{id}/artifacts", "List the artifacts of the session's storage", ListArtifacts);
  add("GET", "/v1/sessions/{id}/artifacts/{name...}", "Load an artifact; info=true: what is known of it", LoadArtifact);
  add("PUT", "/v1/sessions/{id}/artifacts/{name...}", "Save an artifact", SaveArtifact);
  add("DELETE", "/v1/sessions/{id}/artifacts/{name...}", "Delete an artifact", DeleteArtifact);
  add("GET", "/v1/sessions/{id}/workflows", "List the workflows of the session's storage, or search them (query)",
      ListWorkflows);
  add("GET", "/v1/sessions/{id}/workflows/{name}", "Show a workflow and its source", ShowWorkflow);
  add("PUT", "/v1/sessions/{id}/workflows/{name}", "Save a workflow", SaveWorkflow);
  add("DELETE", "/v1/sessions/{id}/workflows/{name}", "Delete a workflow", DeleteWorkflow);
}

}  // namespace cella::server
