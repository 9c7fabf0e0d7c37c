// What is typed behind a colon.
#include <cstdlib>
#include <iterator>
#include <sstream>

#include "base/units.h"
#include "cli/repl/interactive.h"
#include "language/host_path.h"
#include "language/plan.h"

namespace cella::cli {
namespace {

std::string Join(const std::vector<std::string>& words) {
  std::string joined;
  for (const std::string& word : words) joined += (joined.empty() ? "" : " ") + word;
  return joined.empty() ? "none" : joined;
}

// What nothing counts is left out.
std::string Describe(const run::GuestUsage& usage) {
  std::string text = fmt::format("alive       {}\n", usage.alive ? "yes" : "no");
  if (usage.memory) text += fmt::format("uses        {} of memory\n", FormatByteSize(*usage.memory));
  if (usage.cpu)
    text += fmt::format("has used    {:.2f} s of processors\n", std::chrono::duration<double>(*usage.cpu).count());
  if (usage.processes) text += fmt::format("processes   {}\n", *usage.processes);
  return text;
}

}  // namespace

async::Task<void> Interactive::Obey(ColonCommand command) {
  const std::string& name = command.name;
  const std::string& argument = command.argument;
  if (name == "help") {
    co_await Print(ColonHelp());
  } else if (name == "quit") {
    status_ = 0;
  } else if (name == "files") {
    // Wherever the code has gone meanwhile. The local executor has no /workspace, and begins in its own.
    const bool has_bash = session_.isolation().executor != "inprocess";
    co_await RunCell(has_bash ? "bash" : "python", has_bash ? "(cd /workspace 2>/dev/null; ls -la)" : "!ls -la");
  } else if (name == "deps") {
    co_await ChangePackages(argument);
  } else if (name == "load" && !argument.empty()) {
    co_await Load(argument);
  } else if (name == "info") {
    const run::GuestUsage usage = co_await session_.MeasureUsage();
    std::string text = Info() + Describe(usage);
    co_await Print(text);
  } else if (name == "time" && (argument == "on" || argument == "off")) {
    view_.set_shows_time(argument == "on");
  } else if (name == "lang" && argument.empty()) {
    std::string text = language_ + "\n";
    co_await Print(text);
  } else if (name == "lang") {
    const language::Language* found = table_.Find(argument);
    if (found != nullptr) {
      language_ = found->name;
    } else {
      std::string text = fmt::format("there is no language '{}': known are {}", argument, table_.Names());
      co_await view_.Complain(text);
    }
  } else if (name == "checkpoints") {
    for (const std::string& each : session_.Checkpoints()) {
      std::string text = each + "\n";
      co_await Print(text);
    }
  } else if (name == "reset" || name == "checkpoint" || name == "rollback" || name == "drop") {
    co_await ChangeState(command);
  } else if (const language::Language* found = table_.Find(name); found != nullptr && !argument.empty()) {
    co_await RunCell(found->name, argument);
  } else {
    std::string text =
        fmt::format("there is no command ':{}{}{}': see :help", name, argument.empty() ? "" : " ", argument);
    co_await view_.Complain(text);
  }
}

async::Task<void> Interactive::ChangeState(const ColonCommand& command) {
  Status status;
  if (command.name == "reset") {
    status = co_await session_.Reset();
  } else if (command.argument.empty()) {
    status = Err(ErrorCode::kInvalid, ":{} NAME", command.name);
  } else if (command.name == "checkpoint") {
    status = co_await session_.SaveCheckpoint(command.argument);
  } else if (command.name == "rollback") {
    status = co_await session_.Rollback(command.argument);
  } else {
    status = co_await session_.DropCheckpoint(command.argument);
  }
  if (status) co_return;
  co_await view_.Complain(status.error().message);
  if (status.error().code == ErrorCode::kClosed) co_await AskWhetherItEnded();
}

async::Task<void> Interactive::ChangePackages(std::string argument) {
  std::istringstream text(std::move(argument));
  std::string verb;
  text >> verb;
  std::vector<std::string> words{std::istream_iterator<std::string>(text), {}};
  if (options_.packages == nullptr) {
    co_await view_.Complain("this session takes no packages");
  } else if (verb.empty()) {
    const installer::SessionLayer* layer = options_.packages->layer();
    std::string list;
    for (const std::string& each : layer == nullptr ? std::vector<std::string>() : layer->List()) list += each + "\n";
    co_await Print(list);
  } else if ((verb == "add" || verb == "remove") && !words.empty()) {
    co_await InstallPackages(std::move(verb), std::move(words));
  } else {
    co_await view_.Complain(":deps, :deps add PACKAGE..., or :deps remove NAME...");
  }
}

// Ctrl-C, or the end of the REPL, stops the change; the packages are then as before.
async::Task<void> Interactive::InstallPackages(std::string verb, std::vector<std::string> words) {
  run::StopSource stop(loop_);
  Status status;
  auto change = [&]() -> async::Task<void> {
    if (verb == "add") {
      status = co_await AddPackages(std::move(words), stop.token());
    } else {
      status = co_await RemovePackages(std::move(words), stop.token());
    }
    mailbox_.Post(PackagesChanged{});
  };
  async::TaskGroup tasks(loop_);
  tasks.Add(change());
  std::vector<Message> typed_ahead;
  for (bool changing = true; changing;) {
    Message message = co_await mailbox_.Take();
    if (auto* progress = std::get_if<PackagesProgress>(&message)) {
      Event event = ProgressEvent{std::move(progress->line)};
      (void)co_await view_.Emit(std::move(event));
    } else if (std::holds_alternative<PackagesChanged>(message)) {
      changing = false;
    } else if (auto* key = std::get_if<Key>(&message)) {
      if (key->code == KeyCode::kInterrupt) {
        typed_ahead.clear();
        (void)stop.Request(StopReason::kCancel);
      } else if (key->code == KeyCode::kSuspend) {
        terminal_->Suspend();
      } else if (typed_ahead.size() < kMaxTypedAhead) {
        typed_ahead.push_back(std::move(message));
      }
    } else if (std::holds_alternative<TerminalChanged>(message)) {
      terminal_->EnterRawMode();
    } else {
      Leave(message);
      (void)stop.Request(StopReason::kCancel);
    }
  }
  co_await tasks.Join();
  mailbox_.PutBack(std::move(typed_ahead));
  co_await view_.ClearProgress();
  if (!status) co_await view_.Complain(status.error().message);
}

async::Task<Status> Interactive::AddPackages(std::vector<std::string> words, run::StopToken stop) {
  if (Status opened = co_await options_.packages->Open(); !opened) co_return opened;
  auto show = [this](std::string_view line) { mailbox_.Post(PackagesProgress{std::string(line)}); };
  auto change = co_await options_.packages->layer()->Add(std::move(words), show, stop);
  if (!change) co_return std::unexpected(std::move(change.error()));
  co_return Status{};
}

async::Task<Status> Interactive::RemovePackages(std::vector<std::string> names, run::StopToken stop) {
  if (Status opened = co_await options_.packages->Open(); !opened) co_return opened;
  for (const std::string& name : names) {
    auto removed = co_await options_.packages->layer()->Remove(name, nullptr, stop);
    if (!removed) co_return std::unexpected(std::move(removed.error()));
    if (!*removed) co_return Err(ErrorCode::kNotFound, "'{}' was not added", name);
  }
  co_return Status{};
}

async::Task<void> Interactive::Load(std::string path) {
  const char* home = std::getenv("HOME");
  if (path.starts_with("~/") && home != nullptr) path.replace(0, 1, home);
  auto code = language::ReadDataFile(path, language::kMaxCodeBytes);
  if (!code) {
    co_await view_.Complain(code.error().message);
    co_return;
  }
  size_t dot = path.rfind('.');
  const bool has_extension = dot != std::string::npos && path.find('/', dot) == std::string::npos;
  const language::Language* found = has_extension ? table_.FindByExtension(path.substr(dot)) : nullptr;
  co_await RunCell(found != nullptr ? found->name : language_, std::move(*code));
}

std::string Interactive::Info() const {
  const Isolation& isolation = session_.isolation();
  std::string text = fmt::format(
      "session     {}\nexecutor    {}\nnamespaces  {}\nseccomp     {}\nlandlock    {}\ncgroup      {}\nnetwork     "
      "{}\n",
      session_.id(), isolation.executor, Join(isolation.namespaces), isolation.seccomp ? "yes" : "no",
      isolation.landlock > 0 ? fmt::format("version {}", isolation.landlock) : "no", isolation.cgroup,
      isolation.network);
  if (!isolation.start.empty()) text += fmt::format("start       {}\n", isolation.start);
  const Limits& limits = policy_.limits;
  auto add = [&](const char* name, const char* key, const std::string& value) {
    auto found = isolation.limits.find(key);
    text += fmt::format("{:<11} {}", name, value);
    text += found != isolation.limits.end() ? fmt::format(" ({})\n", found->second.by) : "\n";
  };
  add("timeout", "timeout", FormatDuration(limits.timeout.value));
  add("cpu time", "cpu_time", FormatDuration(limits.cpu_time.value));
  add("memory", "memory", FormatByteSize(limits.memory.value));
  add("pids", "pids", fmt::format("{}", limits.pids.value));
  add("disk", "disk", FormatByteSize(limits.disk.value));
  for (const auto& [name, detail] : isolation.details) text += fmt::format("{:<11} {}\n", name, detail);
  if (!isolation.unenforced.empty()) text += fmt::format("unenforced  {}\n", Join(isolation.unenforced));
  return text;
}

}  // namespace cella::cli
