#include "library/embedded/python_guest.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <sstream>

#include "executor/values.h"
#include "library/embedded/libpython.h"
#include "library/embedded/python_run.h"
#include "os/io.h"
#include "os/unix_listener.h"

namespace cella::library {
namespace {

using namespace std::chrono_literals;
using async::Task;

constexpr int kKeyChannel = 0;
// For the first question of a session, while code of others may hold the interpreter.
constexpr auto kOpenPatience = 20s;
constexpr auto kAnswerPatience = 10s;
// The package gives code half a second to notice that it shall end.
constexpr auto kEndPatience = 3s;

}  // namespace

Task<Result<std::unique_ptr<run::Guest>>> PythonGuest::Open(PythonPlace place, Isolation isolation,
                                                            run::GuestSpec spec) {
  CO_TRY(executor::LocalScratch scratch, executor::LocalScratch::Create(place.tmpdir));
  UniqueFd fd(open(scratch.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd) co_return SysErr(errno, "open '{}'", scratch.path());
  os::Directory directory(std::move(fd), std::nullopt);
  std::unique_ptr<PythonGuest> guest(
      new PythonGuest(place, std::move(isolation), std::move(spec), std::move(scratch), std::move(directory)));
  auto connected = co_await guest->Connect();
  CO_TRY_VOID(connected);
  co_return std::unique_ptr<run::Guest>(std::move(guest));
}

std::string PythonGuest::EncodeConfiguration() const {
  runner::Configuration configuration;
  configuration.env = {{run::kCallSocketVariable, CallSocketPath()}};
  configuration.spaces = spec_.spaces;
  configuration.assignments = spec_.policy.values_of_assignments;
  configuration.output_limit = spec_.policy.limits.output.value;
  return runner::EncodeConfigure(configuration);
}

Task<Status> PythonGuest::Connect() {
  CO_TRY(os::SocketPair sockets, os::MakeStreamSockets());
  CO_TRY(async::ReadySet ready, async::ReadySet::Create(place_.loop));
  CO_TRY(runner::Channel channel, runner::Channel::Open(std::move(sockets.ours)));
  auto link = std::make_unique<PythonLink>(PythonLink{std::move(channel), std::move(ready)});
  CO_TRY_VOID(link->ready.Add(link->channel.fd(), kKeyChannel));
  place_.serve(sockets.theirs.Release());
  link_ = std::move(link);
  const async::TimePoint patience = async::Clock::now() + kOpenPatience;
  const std::string configure = EncodeConfiguration();
  auto sent = co_await link_->channel.Send(place_.loop, configure, patience);
  if (!sent) link_.reset();
  CO_TRY_VOID(sent);
  link_->ready.SetDeadline(patience);
  auto answered = co_await Exchange(runner::EncodeQuestion(CodeQuestion::kIsComplete, "", 0));
  if (answered) co_return Status{};
  co_await EndLink();
  Error error = std::move(answered.error());
  co_return std::unexpected(std::move(error).WithContext("the interpreter of this process opened no session"));
}

// A session whose socket broke is opened anew.
Task<Status> PythonGuest::EnsureLink() {
  if (link_) co_return Status{};
  auto connected = co_await Connect();
  co_return connected;
}

// The session at the other end closes its socket when it has ended.
Task<void> PythonGuest::EndLink() {
  if (!link_) co_return;
  const std::unique_ptr<PythonLink> link = std::move(link_);
  (void)shutdown(link->channel.fd(), SHUT_WR);
  if (!HasInterpreter()) co_return;  // its threads have ended with it
  const async::TimePoint deadline = async::Clock::now() + kEndPatience;
  link->ready.SetDeadline(deadline);
  while (async::Clock::now() < deadline) {
    auto arrival = link->channel.Receive();
    if (!arrival || *arrival == runner::Channel::Arrival::kClosed) break;
    while (link->channel.Next()) {
    }
    if (*arrival == runner::Channel::Arrival::kSome) {
      co_await async::Yield();
      continue;
    }
    auto keys = co_await link->ready.Wait();
    if (keys.empty()) break;
  }
  link->ready.Remove(link->channel.fd());
}

const run::Traits& PythonGuest::traits(std::string_view language) const {
  return CheckLanguage(std::string(language)) ? run::kCells : run::kPrograms;
}

bool PythonGuest::takes_values(std::string_view language) const {
  return CheckLanguage(std::string(language)).has_value();
}

Task<Result<UniqueFd>> PythonGuest::Listen() { co_return os::ListenUnix(CallSocketPath(), run::kCallBacklog); }

Task<Status> PythonGuest::PlaceVariables(const RunSpec& run, std::vector<runner::Value>* values) {
  const executor::ValueWriter writer = executor::WriterInto(place_.pool, directory_);
  executor::PlacedValues placed;
  auto wrote =
      co_await executor::PlaceValues(run.variables, scratch_.path(), executor::PlaceInFiles::kLarge, writer, &placed);
  value_files_ = std::move(placed.files);
  *values = std::move(placed.values);
  if (!wrote) executor::RemoveValues(directory_, &value_files_);
  co_return wrote;
}

Task<Result<std::unique_ptr<run::Execution>>> PythonGuest::Begin(const run::BlockTurn& turn, run::StopToken stop) {
  if (turn.run.as == RunAs::kProgram || !turn.run.files.empty()) {
    co_return Err(ErrorCode::kUnsupported,
                  "programs and files: the code shares this process; use the executor sandbox or local");
  }
  CO_TRY_VOID(CheckLanguage(turn.block.language));
  auto ensured = co_await EnsureLink();
  CO_TRY_VOID(ensured);
  if (stop.ending()) co_return Err(ErrorCode::kClosed, "stopped before it began");
  lost_ = false;
  runner::Cell cell;
  cell.run = turn.run.id + fmt::format("-{}", turn.number);
  cell.number = turn.number;
  cell.code = turn.block.code;
  cell.stdin_text = turn.stdin_text;
  cell.input = turn.run.answers_input;
  cell.checkpoint = CheckpointMode::kOff;
  if (turn.first && !turn.run.variables.empty()) {
    auto wrote = co_await PlaceVariables(turn.run, &cell.variables);
    CO_TRY_VOID(wrote);
  }
  auto execution = std::make_unique<PythonRun>(place_, *link_, cell.run, &lost_);
  execution->Begin(cell);
  co_return std::unique_ptr<run::Execution>(std::move(execution));
}

Task<Result<run::StateReport>> PythonGuest::AfterBlock(const run::RunFacts& facts, run::EventSink&) {
  // Without an answer it is not known what the session does: it ends with its socket, and the next run has a new one.
  if (!facts.answer) co_await EndLink();
  executor::RemoveValues(directory_, &value_files_);
  co_return run::StateReport{lost_ ? StateAfter::kLost : StateAfter::kKept, "off"};
}

Task<Result<std::string>> PythonGuest::Exchange(std::string question) {
  const async::TimePoint deadline = async::Clock::now() + kAnswerPatience;
  auto sent = co_await link_->channel.Send(place_.loop, question, deadline);
  CO_TRY_VOID(sent);
  link_->ready.SetDeadline(deadline);
  while (async::Clock::now() < deadline) {
    auto arrival = link_->channel.Receive();
    if (!arrival) co_return std::unexpected(std::move(arrival.error()));
    bool took = false;
    while (auto payload = link_->channel.Next()) {
      took = true;
      auto frame = runner::DecodeFrame(*payload);
      if (!frame) continue;
      if (auto* answer = std::get_if<runner::AnswerFrame>(&*frame)) co_return std::move(answer->json);
    }
    if (*arrival == runner::Channel::Arrival::kClosed) co_return Err(ErrorCode::kClosed, "the session has ended");
    if (took) {
      co_await async::Yield();
      continue;
    }
    (void)co_await link_->ready.Wait();
  }
  co_return Err(ErrorCode::kClosed, "the interpreter does not answer");
}

Task<Result<std::string>> PythonGuest::Ask(const std::string& language, CodeQuestion question, std::string code,
                                           size_t cursor) {
  CO_TRY_VOID(CheckLanguage(language));
  auto ensured = co_await EnsureLink();
  CO_TRY_VOID(ensured);
  auto answer = co_await Exchange(runner::EncodeQuestion(question, code, cursor));
  co_return answer;
}

Task<Status> PythonGuest::Reset() {
  co_await EndLink();
  auto ensured = co_await EnsureLink();
  co_return ensured;
}

// The figures are this process's, which the session shares.
Task<run::GuestUsage> PythonGuest::MeasureUsage() {
  run::GuestUsage usage;
  usage.alive = link_ != nullptr;
  usage.processes = usage.alive ? 1 : 0;
  constexpr uint64_t kShort = 4096;
  auto statm = os::ReadFile("/proc/self/statm", kShort);
  uint64_t size = 0, resident = 0, shared = 0;
  if (statm && std::istringstream(*statm) >> size >> resident >> shared) {
    usage.memory = (resident - std::min(shared, resident)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  }
  co_return usage;
}

Task<void> PythonGuest::Close() { co_await EndLink(); }

}  // namespace cella::library
