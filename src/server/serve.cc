#include "server/serve.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <limits>

#include "async/blocking_pool.h"
#include "async/deadline.h"
#include "async/descriptor.h"
#include "async/signals.h"
#include "async/task_group.h"
#include "base/scope_exit.h"
#include "engine/engine.h"
#include "engine/source_check.h"
#include "http/listener.h"
#include "http/server.h"
#include "installer/environments.h"
#include "installer/session_packages.h"
#include "os/io.h"
#include "os/syscalls.h"
#include "policy/keys.h"
#include "registry/registry.h"
#include "server/admission.h"
#include "server/api.h"
#include "server/hosted_sessions.h"
#include "server/listen_address.h"
#include "server/log.h"
#include "server/metrics.h"
#include "server/quota.h"
#include "server/state_directory.h"
#include "session/fold.h"
#include "storage/service.h"

namespace cella::server {
namespace {

using namespace std::chrono_literals;

// A longer stop of the loop than this is seen, and an idle server still rests.
constexpr auto kLagEvery = 50ms;

// Of the file system of the state directory, which is small in containers: what the registry, one file of a run, and
// the files of all ended runs may use of it.
constexpr uint64_t kStateShare = 8;
constexpr uint64_t kRunFileShare = 16;
constexpr uint64_t kRunFilesShare = 4;
constexpr uint64_t kLeastRunFile = uint64_t{128} << 10;
constexpr uint64_t kBytesOfAnAuditRow = 1024;

// Of all there is, not of what is free now.
uint64_t BytesOfDisk(const std::string& directory) {
  struct statvfs disk = {};
  const bool known = statvfs(directory.c_str(), &disk) == 0 && disk.f_blocks > 0;
  return known ? uint64_t{disk.f_blocks} * disk.f_frsize : std::numeric_limits<uint64_t>::max();
}

registry::RegistryOptions RegistryOptionsOf(const Config& config) {
  registry::RegistryOptions options;
  const uint64_t share = BytesOfDisk(config.server.state_dir) / kStateShare;
  options.retention.max_bytes = std::min(options.retention.max_bytes, share);
  options.retention.max_audit = std::min(options.retention.max_audit, options.retention.max_bytes / kBytesOfAnAuditRow);
  options.instance = session::NewSessionId();
  options.retention.age = std::chrono::days(static_cast<int>(config.retention.days));
  options.retention.max_runs = config.retention.runs;
  return options;
}

// A pipe, so that the tokens are in no file, argument or variable, and nowhere once they are read.
Result<std::unique_ptr<Tokens>> ReadTokens(int descriptor) {
  const std::string name = fmt::format("the tokens of descriptor {}", descriptor);
  auto text = os::ReadFd(descriptor, kMaxTokenFile);
  if (!text) return std::unexpected(std::move(text.error()).WithContext(name));
  ScopeExit wipe([&] { explicit_bzero(text->data(), text->size()); });
  TRY(TokenSet set, TokenSet::Parse(*text, name));
  if (set.entries().empty()) return Err(ErrorCode::kInvalid, "{}: there is none", name);
  // Descriptors 0 to 2 stay open, lest something else is opened there.
  if (descriptor > 2) {
    (void)close(descriptor);
  } else if (UniqueFd null(open("/dev/null", O_RDWR | O_CLOEXEC)); !null || dup2(null.get(), descriptor) < 0) {
    return SysErr(errno, "open '/dev/null'");
  }
  return std::make_unique<Tokens>(std::move(set));
}

Result<std::unique_ptr<Tokens>> LoadTokens(const ServeOptions& options) {
  if (options.token_fd) return ReadTokens(*options.token_fd);
  auto tokens = std::make_unique<Tokens>(options.config.server.token_file);
  const bool exists = access(options.config.server.token_file.c_str(), F_OK) == 0;
  if (exists || options.token_file_named) TRY_VOID(tokens->Reload());
  return tokens;
}

// On TCP every machine that reaches the port can connect. Sockets that a service manager passes are not in the
// configuration, whose own checks saw none of them.
Status CheckListener(const http::Listener& listener, const Config& config, const Tokens& tokens) {
  if (listener.address().is_unix()) return {};
  if (config.allow.whole_machine) {
    return Err(ErrorCode::kPermission,
               "refusing to listen on {} with allow.whole_machine: its clients need not be the server's user",
               listener.address().ToString());
  }
  if (config.server.no_auth && !http::IsLocal(listener.address())) {
    return Err(ErrorCode::kPermission, "refusing to listen on {} without authentication: it is not loopback",
               listener.address().ToString());
  }
  if (!http::IsLocal(listener.address()) && !listener.tls() && !config.server.insecure_http) {
    return Err(ErrorCode::kPermission,
               "refusing to listen on {} without TLS: it is not loopback; set server.tls_certificate and "
               "server.tls_key, or server.insecure_http (--insecure-http) where the network itself is trusted",
               listener.address().ToString());
  }
  if (tokens.size() > 0 || config.server.no_auth) return {};
  return Err(ErrorCode::kPermission,
             "refusing to listen on {} without a token: make one with 'cella token new NAME', or give --no-auth for "
             "loopback alone",
             listener.address().ToString());
}

// The server's own, wherever the operator put it.
std::vector<confine::GuardedPath> GuardedOf(const Config& config) {
  const Config::Server& server = config.server;
  using Kind = confine::GuardedPath::Kind;
  std::vector<confine::GuardedPath> guarded;
  auto add = [&](const char* what, const std::string& path) {
    if (!path.empty()) guarded.push_back({Kind::kPrivate, what, path});
  };
  add("the state directory of this server", server.state_dir);
  add("the runtime directory of this server", server.runtime_dir);
  add("the tokens of this server", server.token_file);
  add("the TLS key of this server", server.tls_key);
  add("the storages of this server", config.storage.directory);
  for (const std::string& text : server.listen) {
    if (auto address = ParseListenAddress(text)) add("the socket of this server", address->path);
  }
  return guarded;
}

// What service managers wait for.
void NotifyReady() {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') return;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (std::strlen(path) >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, path, std::strlen(path));
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  UniqueFd socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + std::strlen(path));
  (void)sendto(socket.get(), "READY=1", 7, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address), size);
}

installer::PackageService::Settings PackagesOf(const Config& config) {
  installer::PackageService::Settings settings;
  settings.state_dir = config.server.state_dir;
  settings.of_the_user = config.allow.whole_machine;
  settings.rules = {config.packages.allow, config.packages.deny};
  settings.guest_writable = config.allow.mounts;
  settings.bounds = {config.packages.installers, config.packages.cache_size};
  settings.source_builds = config.allow.source_builds || config.allow.whole_machine;
  return settings;
}

class Serving {
 public:
  Serving(async::Loop& loop, ServeOptions options)
      : loop_(loop),
        options_(std::move(options)),
        config_(options_.config),
        log_(config_.log.level, config_.log.format, options_.log_fd),
        packages_(loop, PackagesOf(config_)),
        environments_(packages_),
        storages_(loop, engine::MakeSourceCheck({.state_dir = config_.server.state_dir,
                                                 .python = config_.defaults.policy.python,
                                                 .guest_writable = config_.allow.mounts})),
        sessions_(loop),
        preparing_(loop) {}

  async::Task<Status> Run() {
    CO_TRY_VOID(Prepare());
    CO_TRY(UniqueFd owner, OpenOwner());
    CO_TRY(tokens_, LoadTokens(options_));
    CO_TRY(std::vector<http::Listener> listeners, OpenListeners());
    CO_TRY_VOID(MakeEngines());
    // While the registry opens: it takes longer than anything else here.
    if (config_.sessions.prestart) preparing_.Add(Prestart());
    Status served = co_await ServeWithRegistry(std::move(listeners), std::move(owner));
    preparing_.Cancel();
    co_await preparing_.Join();
    co_await packages_.Close();
    for (const auto& engine : engines_.by_kind) {
      if (engine) co_await engine->executor->Close();
    }
    co_return served;
  }

 private:
  async::Task<Status> ServeWithRegistry(std::vector<http::Listener> listeners, UniqueFd owner) {
    registry::RegistryOptions options = RegistryOptionsOf(config_);
    options.free_disk = [this] { return sessions_.files().FreeSome(); };
    const std::string path = config_.server.state_dir + "/registry.db";
    auto registry = co_await registry::Registry::Open(loop_, path, std::move(options));
    if (!registry) co_return std::unexpected(std::move(registry.error()));
    registry_ = std::move(*registry);
    // Of a server that died; the registry has what its runs told last, and is ours alone.
    Status emptied = EmptyDirectory(config_.server.state_dir + "/runs");
    if (!emptied) {
      co_await registry_->Close();
      co_return emptied;
    }
    auto lost = co_await registry_->MarkLost();
    if (lost && !lost->sessions.empty()) {
      log_.Write(LogLevel::kWarning, "sessions.lost", "sessions of a server before this one are lost",
                 {{"sessions", static_cast<int64_t>(lost->sessions.size())}});
    }
    Status served = lost ? Status{} : std::unexpected(std::move(lost.error()));
    if (served) co_await ServeAndDrain(std::move(listeners), std::move(owner));
    co_await registry_->Close();
    co_return served;
  }

  // Nothing: it has no owner.
  Result<UniqueFd> OpenOwner() const {
    if (!options_.exit_with) return UniqueFd();
    UniqueFd owner(os::PidfdOpen(*options_.exit_with));
    if (!owner) return SysErr(errno, "process {} that this server belongs to", *options_.exit_with);
    return owner;
  }

  Status Prepare() {
    TRY_VOID(MakePrivateDirectory(config_.server.state_dir));
    if (!config_.storage.directory.empty()) TRY_VOID(MakePrivateDirectory(config_.storage.directory));
    TRY_VOID(MakePrivateDirectory(config_.server.state_dir + "/runs"));
    const uint64_t disk = BytesOfDisk(config_.server.state_dir);
    sessions_.files().SetBound(disk / kRunFilesShare);
    uint64_t& of_a_file = options_.config.retention.event_log_bytes;
    of_a_file = std::min(of_a_file, std::max(disk / kRunFileShare, kLeastRunFile));
    return {};
  }

  Result<std::vector<http::Listener>> OpenListeners() {
    std::optional<http::Tls> tls;
    if (!config_.server.tls_certificate.empty()) {
      TRY(tls, http::Tls::ForServer({config_.server.tls_certificate, config_.server.tls_key}));
    }
    std::vector<http::Listener> listeners;
    TRY(std::vector<UniqueFd> inherited, http::InheritedSockets(std::getenv("LISTEN_PID"), std::getenv("LISTEN_FDS")));
    for (UniqueFd& fd : inherited) {
      TRY(http::Listener listener, http::Listener::Adopt(std::move(fd), tls));
      listeners.push_back(std::move(listener));
    }
    if (listeners.empty()) {
      for (const std::string& text : config_.server.listen) {
        TRY(http::Address address, http::ParseAddress(text));
        if (address.is_unix()) {
          std::string directory = address.path.substr(0, address.path.rfind('/'));
          if (!directory.empty() && directory.starts_with(config_.server.runtime_dir)) {
            TRY_VOID(MakePrivateDirectory(directory));
          }
        }
        http::ListenOptions how;
        if (!address.is_unix()) how.tls = tls;
        TRY(http::Listener listener, http::Listener::Open(address, how));
        listeners.push_back(std::move(listener));
      }
    }
    for (const http::Listener& listener : listeners) TRY_VOID(CheckListener(listener, config_, *tokens_));
    return listeners;
  }

  Status MakeEngines() {
    const executor::PoolLimits pool{
        .jails = config_.sessions.pool_shells, .parked = config_.sessions.pool_parked, .forks_programs = true};
    const auto guests = engine::MakeGuestDirectories(config_.server.state_dir);
    for (ExecutorKind kind : config_.UsableExecutors()) {
      // Guests on the host could run the host's programs themselves.
      engine::EngineOptions options{.pool = pool, .state_dir = config_.server.state_dir, .guarded = GuardedOf(config_)};
      const bool may_confine = Confines(kind) || policy::Takes(kind, "jail");
      if (may_confine) options.guest_writable = config_.allow.mounts;
      options.guest_directories = guests;
      options.layers = packages_.layers();
      options.opened.readable = packages_.ready();
      options.kernel_environments = &packages_;
      TRY(engines_.by_kind[IndexOf(kind)], engine::MakeEngine(loop_, kind, std::move(options)));
    }
    return {};
  }

  async::Task<void> ServeAndDrain(std::vector<http::Listener> listeners, UniqueFd owner) {
    Quota quota([this](std::string_view client) { return config_.QuotaOf(client); });
    Metrics metrics;
    async::BlockingPool work(loop_, {.threads = 2, .queue = 4096});
    Hub hub{loop_,     config_, engines_,  *registry_,    quota,     metrics, log_,
            sessions_, work,    packages_, environments_, storages_, {}};
    using Demand = Clients::Demand;
    const Demand demand = options_.token_fd        ? Demand::kTokenAlways
                          : config_.server.no_auth ? Demand::kNoToken
                                                   : Demand::kTokenOverTcp;
    Clients clients(tokens_.get(), demand, geteuid());
    Api api(hub, clients, HostRules::From(config_));
    http::Limits limits;
    limits.connections = config_.server.max_connections;
    limits.bodies = std::max(limits.bodies, 2 * config_.server.max_body);
    http::Server server(loop_, api, limits);
    hub.connections = [&server] { return server.connections(); };
    std::vector<std::string> addresses;
    for (http::Listener& listener : listeners) {
      addresses.push_back(listener.address().ToString());
      server.Start(std::move(listener));
    }
    async::StopSignals stop(loop_, {SIGINT, SIGTERM});
    async::TaskGroup reloading(loop_);
    reloading.Add(ReloadTokens());
    reloading.Add(MeasureLag(metrics));
    // Not part of the log: the program that started the server waits for these very words.
    for (const std::string& address : addresses) dprintf(options_.log_fd, "listening on %s\n", address.c_str());
    NotifyReady();
    const bool abandoned = co_await StopOrAbandoned(stop, std::move(owner));
    hub.draining = true;
    reloading.Cancel();
    co_await reloading.Join();
    log_.Write(LogLevel::kInfo, "draining", abandoned ? "the process it belongs to has ended" : "draining");
    server.StopAccepting();
    const async::TimePoint deadline = async::Clock::now() + (abandoned ? 0s : config_.server.drain_grace);
    co_await LetRunsEnd(deadline);
    co_await sessions_.Close("the server ended");
    co_await environments_.Close();  // what it makes counts in the quota
    co_await server.Drain(std::max(deadline, async::Clock::now() + 1s));
  }

  // Of sessions with the default policy. If it fails, the request for such a session gets the reason.
  async::Task<void> Prestart() {
    auto spec = Admit({}, config_, "");
    engine::Engine* engine = spec ? engines_.Find(spec->executor) : nullptr;
    if (engine == nullptr) co_return;
    auto prepared = co_await engine->executor->Prepare(*spec);
    if (!prepared) {
      log_.Write(LogLevel::kWarning, "prestart.failed", "the default Python cannot be started ahead of demand",
                 {{"error", prepared.error().message}});
    }
  }

  // True: the process that owns this server has ended, and no client waits for its runs.
  async::Task<bool> StopOrAbandoned(async::StopSignals& stop, UniqueFd owner) {
    if (!owner) {
      (void)co_await stop.Wait();
      co_return false;
    }
    async::Descriptor process(loop_, std::move(owner), async::Sharing::kShared);
    auto first = co_await async::FirstOf(stop.Wait(), process.Readable());
    co_return first.index() == 1;
  }

  // Until cancelled.
  static async::Task<void> MeasureLag(Metrics& metrics) {
    for (;;) {
      const async::TimePoint due = async::Clock::now() + kLagEvery;
      bool slept = co_await async::SleepUntil(due);
      if (!slept) co_return;
      metrics.LoopLagged(async::Clock::now() - due);
    }
  }

  // Whenever we are told to.
  async::Task<void> ReloadTokens() {
    async::StopSignals hangup(loop_, {SIGHUP});
    for (;;) {
      auto signal = co_await hangup.Next();
      if (!signal) co_return;
      auto read = tokens_->Reload();
      if (read) {
        log_.Write(LogLevel::kInfo, "tokens.read", "tokens read again",
                   {{"clients", static_cast<int64_t>(tokens_->size())}});
      } else {
        log_.Write(LogLevel::kError, "tokens.bad", "the tokens from before hold on", {{"error", read.error().message}});
      }
    }
  }

  // Those that are on; what waits behind them is cancelled with the session.
  async::Task<void> LetRunsEnd(async::TimePoint deadline) const {
    auto busy = [this] {
      for (const auto& session : sessions_.All()) {
        if (session->engine().is_busy()) return true;
      }
      return false;
    };
    while (busy() && async::Clock::now() < deadline) {
      bool slept = co_await async::SleepUntil(async::Clock::now() + 20ms);
      if (!slept) co_return;
    }
  }

  async::Loop& loop_;
  ServeOptions options_;
  const Config& config_;
  Log log_;
  std::unique_ptr<Tokens> tokens_;
  Engines engines_;
  std::unique_ptr<registry::Registry> registry_;
  installer::PackageService packages_;
  installer::Environments environments_;
  storage::Service storages_;
  HostedSessions sessions_;
  async::TaskGroup preparing_;
};

}  // namespace

async::Task<Status> Serve(async::Loop& loop, ServeOptions options) {
  Serving serving(loop, std::move(options));
  auto served = co_await serving.Run();
  co_return served;
}

}  // namespace cella::server
