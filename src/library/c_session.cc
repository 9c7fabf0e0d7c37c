// cella.h: errors, engines, sessions, files.
#include "library/embedded/libpython.h"
#include "library/files.h"
#include "library/handles.h"
#include "library/session_request.h"
#include "storage/spaces.h"

using namespace cella;
using namespace cella::library;

static_assert(static_cast<int>(ErrorCode::kInvalid) == CELLA_INVALID);
static_assert(static_cast<int>(ErrorCode::kNotFound) == CELLA_NOT_FOUND);
static_assert(static_cast<int>(ErrorCode::kPermission) == CELLA_PERMISSION);
static_assert(static_cast<int>(ErrorCode::kUnsupported) == CELLA_UNSUPPORTED);
static_assert(static_cast<int>(ErrorCode::kExhausted) == CELLA_EXHAUSTED);
static_assert(static_cast<int>(ErrorCode::kClosed) == CELLA_CLOSED);
static_assert(static_cast<int>(ErrorCode::kInternal) == CELLA_INTERNAL);

namespace {

using Storage = std::shared_ptr<storage::SessionStorage>;

// Null: the session has none.
async::Task<Result<Storage>> OpenStorage(Host& host, const SessionSpec& spec) {
  const std::vector<std::string> writable = IsConfined(spec) ? GuestWritable(spec.policy) : std::vector<std::string>();
  if (!writable.empty()) {
    const std::string why = host.storages().NoteWritable(writable);
    if (!why.empty()) co_return Err(ErrorCode::kPermission, "workdir or mounts: {}", why);
  }
  if (spec.storage.empty()) co_return Storage();
  const std::string why = host.storages().WhyNot(spec.storage);
  if (!why.empty()) co_return Err(ErrorCode::kPermission, "storage: {}", why);
  auto opened = co_await host.storages().Open(spec.storage, {});
  if (!opened) co_return std::unexpected(std::move(opened.error()).WithContext("storage"));
  co_return std::make_shared<storage::SessionStorage>(
      storage::SessionStorage{.service = host.storages(), .storage = std::move(*opened), .confined = IsConfined(spec)});
}

async::Task<Result<std::shared_ptr<SessionCore>>> Open(Host& host, SessionRequest request) {
  CO_TRY(run::Executor * executor, host.ExecutorOf(request.executor));
  auto storage = co_await OpenStorage(host, request.options.guest);
  if (!storage) co_return std::unexpected(std::move(storage.error()));
  if (*storage) storage::AddSpaces(*storage, &request.options.spaces);
  auto tools = std::make_shared<server::SessionTools>(host.loop(), host.work());
  request.options.spaces[server::SessionTools::kSpace] = tools;
  auto session = co_await session::Session::Open(host.loop(), *executor, std::move(request.options));
  if (!session) co_return std::unexpected(std::move(session.error()));
  // The session owns the namespaces, which alone keep this.
  if (*storage) (*storage)->workspace = [&on = **session] { return on.workspace(); };
  auto core = std::make_shared<SessionCore>(host, std::move(*session), std::move(tools));
  host.Add(core);
  co_return core;
}

// `work` with the session, on the loop.
template <typename T>
Result<T> On(cella_session* session, std::function<async::Task<Result<T>>(session::Session&)> work) {
  if (session == nullptr) return Err(ErrorCode::kInvalid, "there is no session");
  auto use = [core = session->core, work = std::move(work)]() -> async::Task<Result<T>> { return core->Use<T>(work); };
  return session->host->Call<T>(std::move(use));
}

bool DoOn(cella_session* session, cella_error** error,
          std::function<async::Task<Status>(session::Session&)> work) noexcept {
  return Guarded(error, [&] { return On<void>(session, std::move(work)); }).has_value();
}

// The same for what waits for its turn, as runs do.
bool DoInTurn(cella_session* session, cella_error** error,
              std::function<async::Task<Status>(session::Session&)> work) noexcept {
  const bool may_wait = Guarded(error, [&] {
                          return session == nullptr ? Status{} : CheckMayWaitForTurn(*session->core->serving());
                        }).has_value();
  return may_wait && DoOn(session, error, std::move(work));
}

Status Close(const cella_session& session) {
  return session.host->Call<void>([core = session.core]() -> async::Task<Status> {
    co_await core->Close();
    co_return Status{};
  });
}

}  // namespace

extern "C" {

const char* cella_version(void) { return CELLA_VERSION; }

cella_code cella_error_code(const cella_error* error) {
  return error == nullptr ? CELLA_INTERNAL : static_cast<cella_code>(error->error.code);
}
const char* cella_error_message(const cella_error* error) {
  return error == nullptr ? "" : error->error.message.c_str();
}
void cella_error_free(cella_error* error) { delete error; }

cella_engine* cella_engine_new(cella_error** error) {
  auto made = Guarded(error, []() -> Result<cella_engine*> {
    TRY(std::shared_ptr<Host> host, NewHost());
    return new cella_engine{std::move(host)};
  });
  return made ? *made : nullptr;
}
void cella_engine_free(cella_engine* engine) {
  // In a child of fork it belongs to the parent, whose processes its end would kill.
  if (engine == nullptr || !engine->host->is_ours()) return;
  delete engine;
}

cella_session* cella_session_open(cella_engine* engine, const char* policy, cella_error** error) {
  auto opened = Guarded(error, [&]() -> Result<cella_session*> {
    TRY(SessionRequest request, ReadSessionRequest(TextOf(policy)));
    if (request.executor == kInThisProcess) TRY_VOID(CheckInterpreterIsFree());
    std::shared_ptr<Host> host;
    if (engine != nullptr) {
      host = engine->host;
    } else {
      TRY(host, SharedHost());
    }
    auto open = [&]() -> async::Task<Result<std::shared_ptr<SessionCore>>> { return Open(*host, std::move(request)); };
    TRY(std::shared_ptr<SessionCore> core, host->Call<std::shared_ptr<SessionCore>>(open));
    return new cella_session{std::move(host), std::move(core)};
  });
  return opened ? *opened : nullptr;
}

bool cella_session_close(cella_session* session, cella_error** error) {
  return Guarded(error,
                 [&]() -> Status {
                   if (session == nullptr) return {};
                   Status closed = Close(*session);
                   // The engine has closed it.
                   if (!closed && closed.error().code == ErrorCode::kClosed && session->host->is_ours()) return {};
                   return closed;
                 })
      .has_value();
}

void cella_session_free(cella_session* session) {
  if (session == nullptr) return;
  // In a child of fork it belongs to the parent.
  if (!session->host->is_ours()) return;
  (void)cella_session_close(session, nullptr);
  delete session;
}

const char* cella_session_id(const cella_session* session) { return session->core->id().c_str(); }
bool cella_session_supports(const cella_session* session, const char* word) {
  return word != nullptr && session->core->Supports(word);
}
const cella_isolation* cella_session_isolation(const cella_session* session) {
  return reinterpret_cast<const cella_isolation*>(&session->core->isolation());
}

bool cella_session_reset(cella_session* session, cella_error** error) {
  return DoInTurn(session, error, [](session::Session& on) { return on.Reset(); });
}
bool cella_session_save_checkpoint(cella_session* session, const char* name, cella_error** error) {
  return DoInTurn(session, error, [name = TextOf(name)](session::Session& on) { return on.SaveCheckpoint(name); });
}
bool cella_session_rollback(cella_session* session, const char* name, cella_error** error) {
  return DoInTurn(session, error, [name = TextOf(name)](session::Session& on) { return on.Rollback(name); });
}
bool cella_session_drop_checkpoint(cella_session* session, const char* name, cella_error** error) {
  return DoInTurn(session, error, [name = TextOf(name)](session::Session& on) { return on.DropCheckpoint(name); });
}

cella_listing* cella_session_checkpoints(cella_session* session, cella_error** error) {
  auto listed = Guarded(error, [&]() -> Result<cella_listing*> {
    auto list = [](session::Session& on) -> async::Task<Result<std::vector<std::string>>> {
      co_return on.Checkpoints();
    };
    TRY(std::vector<std::string> names, On<std::vector<std::string>>(session, list));
    auto listing = std::make_unique<cella_listing>();
    for (std::string& name : names) listing->entries.push_back({std::move(name)});
    return listing.release();
  });
  return listed ? *listed : nullptr;
}

cella_bytes* cella_session_read_file(cella_session* session, const char* path, cella_error** error) {
  auto read = Guarded(error, [&]() -> Result<cella_bytes*> {
    auto work = [path = TextOf(path)](session::Session& on) { return ReadFile(on, path); };
    TRY(std::string content, On<std::string>(session, work));
    return new cella_bytes{std::move(content)};
  });
  return read ? *read : nullptr;
}

bool cella_session_write_file(cella_session* session, const char* path, const void* data, size_t size,
                              cella_error** error) {
  return Guarded(error,
                 [&]() -> Status {
                   auto content = TextOf(static_cast<const char*>(data), size);
                   return On<void>(session, [path = TextOf(path), content = std::move(content)](session::Session& on) {
                     return WriteFile(on, path, content);
                   });
                 })
      .has_value();
}

bool cella_session_remove_file(cella_session* session, const char* path, cella_error** error) {
  return DoOn(session, error, [path = TextOf(path)](session::Session& on) { return RemoveFile(on, path); });
}

cella_listing* cella_session_list_files(cella_session* session, const char* path, cella_error** error) {
  auto listed = Guarded(error, [&]() -> Result<cella_listing*> {
    auto work = [path = TextOf(path)](session::Session& on) { return ListFiles(on, path); };
    TRY(cella_listing listing, On<cella_listing>(session, work));
    return new cella_listing(std::move(listing));
  });
  return listed ? *listed : nullptr;
}

const void* cella_bytes_data(const cella_bytes* bytes) { return bytes->content.data(); }
size_t cella_bytes_size(const cella_bytes* bytes) { return bytes->content.size(); }
void cella_bytes_free(cella_bytes* bytes) { delete bytes; }

size_t cella_listing_count(const cella_listing* listing) { return listing->entries.size(); }
const char* cella_listing_name(const cella_listing* listing, size_t index, size_t* size) {
  if (index >= listing->entries.size()) return nullptr;
  const std::string& name = listing->entries[index].name;
  if (size != nullptr) *size = name.size();
  return name.c_str();
}
uint64_t cella_listing_file_size(const cella_listing* listing, size_t index) {
  return index < listing->entries.size() ? listing->entries[index].size : 0;
}
bool cella_listing_is_directory(const cella_listing* listing, size_t index) {
  return index < listing->entries.size() && listing->entries[index].is_directory;
}
bool cella_listing_complete(const cella_listing* listing) { return listing->complete; }
void cella_listing_free(cella_listing* listing) { delete listing; }

}  // extern "C"
