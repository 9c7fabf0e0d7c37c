#include "registry/registry.h"

#include <algorithm>
#include <cerrno>

#include "async/deadline.h"

namespace cella::registry {
namespace {

using namespace std::chrono_literals;

constexpr size_t kBatch = 256;
constexpr size_t kReads = 256;
// How long a write waits for others to share its commit, and how many of them are enough: what goes ahead of the queue
// has to wait for a commit that has begun.
constexpr auto kPatience = 10ms;
constexpr size_t kCompany = 64;
// Pages that the log grows by before they are moved into the file, beside the writer; and its size at which the writer
// itself has to pause for that, because it never let the other one finish.
constexpr int kCheckpointPages = 1000;
constexpr int kCheckpointMustPages = 16000;

// Those that would be kept: what is trimmed anyway need not wait in the queue.
std::vector<EventRecord> TailOf(std::vector<EventRecord> events, const RegistryOptions& options) {
  // One that is too large leaves a gap in the numbers, by which readers notice it.
  std::erase_if(events, [&](const EventRecord& event) { return event.event.size() > options.tail_bytes; });
  size_t bytes = 0;
  auto first = events.end();
  while (first != events.begin() && static_cast<size_t>(events.end() - first) < options.tail_events) {
    bytes += std::prev(first)->event.size();
    if (bytes > options.tail_bytes) break;
    --first;
  }
  events.erase(events.begin(), first);
  return events;
}

bool NeedsRoom(const RegistryWrite& write) {
  return !write.outcome && (write.outcome.error().sys_errno == ENOSPC || write.outcome.error().sys_errno == EDQUOT);
}

// The writer of the request is to blame for the others.
bool IsOurs(ErrorCode code) { return code != ErrorCode::kNotFound && code != ErrorCode::kInvalid; }

}  // namespace

Registry::Registry(async::Loop& loop, std::string path, RegistryOptions options)
    : loop_(loop),
      path_(std::move(path)),
      options_(std::move(options)),
      writing_(loop, {.threads = 1, .queue = 4}),
      reading_(loop, {.threads = 1, .queue = kReads}),
      moving_log_(loop, {.threads = 1, .queue = 4}),
      places_(loop, options_.queue),
      closing_(loop),
      tasks_(loop) {}

async::Task<Result<std::unique_ptr<Registry>>> Registry::Open(async::Loop& loop, std::string path,
                                                              RegistryOptions options) {
  if (options.instance.empty()) co_return Err(ErrorCode::kInvalid, "a registry needs the name of its server");
  std::unique_ptr<Registry> registry(new Registry(loop, std::move(path), std::move(options)));
  Status opened = co_await registry->OpenFiles();
  if (!opened) co_return std::unexpected(std::move(opened.error()).WithContext("the registry"));
  if (registry->options_.retention.interval.count() > 0) registry->tasks_.Add(registry->Retain());
  co_return std::move(registry);
}

async::Task<Status> Registry::OpenFiles() {
  auto open_writer = [this]() -> Status {
    TRY(lock_, store::FileLock::Take(path_ + ".lock"));
    TRY(writer_, RegistryWriter::Open(path_, options_));
    return {};
  };
  auto open_reader = [this]() -> Status {
    TRY(auto reader, RegistryReader::Open(path_));
    reader_.emplace(std::move(reader));
    return {};
  };
  auto open_mover = [this]() -> Status {
    TRY(auto mover, store::Database::Open(path_));
    mover_.emplace(std::move(mover));
    return {};
  };
  CO_TRY_VOID(co_await writing_.Run(open_writer));
  CO_TRY_VOID(co_await reading_.Run(open_reader));
  CO_TRY_VOID(co_await moving_log_.Run(open_mover));
  co_return Status{};
}

async::Task<void> Registry::Close() {
  closing_.Set();
  if (wake_) wake_->Set();
  co_await tasks_.Join();
  // The last connection that closes moves the log into the file: that is the writer's, and it takes time.
  auto close_reader = [this]() -> Status {
    reader_.reset();
    return {};
  };
  auto close_writer = [this]() -> Status {
    mover_.reset();
    writer_.reset();
    lock_.reset();
    return {};
  };
  (void)co_await reading_.Run(close_reader);
  (void)co_await writing_.Run(close_writer);
}

Timestamp Registry::Now() const {
  if (options_.now) return options_.now();
  return std::chrono::time_point_cast<std::chrono::milliseconds>(std::chrono::system_clock::now());
}

async::Task<Status> Registry::Enqueue(Apply apply, Until until, Place place) {
  auto pass = co_await places_.Enter();
  if (closing_.is_set()) co_return Err(ErrorCode::kClosed, "the registry is closed");
  async::Event done(loop_);
  Status outcome;
  const bool waits = until != Until::kQueued;
  Queued queued{{std::move(apply), {}},
                std::move(pass),
                waits ? &done : nullptr,
                waits ? &outcome : nullptr,
                place == Place::kOnlyOrder};
  if (place == Place::kAhead) {
    ahead_.push_back(std::move(queued));
  } else {
    if (queue_.empty()) queue_due_ = async::Clock::now() + kPatience;
    queue_.push_back(std::move(queued));
    if (until == Until::kCommitted) hurry_ = true;
  }
  health_.queued = ahead_.size() + queue_.size();
  if (!draining_) {
    draining_ = true;
    tasks_.Add(Drain());
  } else if (wake_ && (!ahead_.empty() || IsQueueDue())) {
    wake_->Set();
  }
  // Cancelled or not: `done` and `outcome` are here.
  while (waits && !done.is_set()) (void)co_await done.Wait();
  co_return outcome;
}

void Registry::Hasten() {
  if (queue_.empty()) return;
  hurry_ = true;
  if (wake_) wake_->Set();
}

template <typename T>
async::Task<Result<T>> Registry::Write(std::move_only_function<Result<T>(RegistryWriter&)> work, Place place) {
  std::optional<T> value;
  auto apply = [&](RegistryWriter& writer) -> Status {
    TRY(value, work(writer));
    return {};
  };
  CO_TRY_VOID(co_await Enqueue(apply, Until::kCommitted, place));
  co_return std::move(*value);
}

async::Task<void> Registry::Drain() {
  // The caller continues first: waking another thread takes time, which a guest need not wait for.
  co_await async::Yield();
  while (!ahead_.empty() || !queue_.empty()) {
    // Each commit wakes two threads: those that can wait share one.
    if (ahead_.empty() && !IsQueueDue()) co_await AwaitHurry();
    co_await WriteBatch();
    co_await KeepLogShort();
  }
  draining_ = false;
}

bool Registry::IsQueueDue() const {
  return !queue_.empty() &&
         (hurry_ || closing_.is_set() || queue_.size() >= kCompany || async::Clock::now() >= queue_due_);
}

async::Task<void> Registry::AwaitHurry() {
  wake_.emplace(loop_);
  (void)co_await async::FirstOf(wake_->Wait(), async::SleepUntil(queue_due_));
  wake_.reset();
}

async::Task<Status> Registry::RunOnWriter(std::move_only_function<Status()> work) {
  auto guarded = [&]() -> Status {
    try {
      return work();
    } catch (const std::exception& failure) {  // no memory, say; a waiting caller must still get the error
      return Err(ErrorCode::kInternal, "the registry's writer: {}", failure.what());
    }
  };
  Status ran;
  do {
    ran = co_await writing_.Run(guarded);
    // Taken back before it began, because a Close was cancelled: what is queued is written all the same.
  } while (!ran && ran.error().code == ErrorCode::kClosed);
  co_return ran;
}

async::Task<void> Registry::WriteBatch() {
  std::vector<RegistryWrite> writes;
  std::vector<Queued> waiters;
  auto take = [&](std::deque<Queued>& from) {
    while (!from.empty() && writes.size() < kBatch) {
      writes.push_back(std::move(from.front().write));
      waiters.push_back(std::move(from.front()));
      from.pop_front();
    }
  };
  take(ahead_);
  if (IsQueueDue()) {
    take(queue_);
    if (queue_.empty()) hurry_ = false;
  }
  health_.queued = ahead_.size() + queue_.size();
  writing_now_ = true;
  std::move_only_function<Status()> work = [&]() -> Status {
    writer_->Apply(writes);
    return {};
  };
  Status ran = co_await RunOnWriter(std::move(work));
  // Free what is not needed, and write once more, before any caller is refused.
  for (bool first = true; ran && std::ranges::any_of(writes, &NeedsRoom); first = false) {
    const bool freed = options_.free_disk && options_.free_disk();
    if (!freed && !first) break;
    work = [&, at = Now()]() -> Status {
      writer_->MakeRoom(at);
      std::vector<RegistryWrite> second;
      std::vector<size_t> places;
      for (size_t i = 0; i < writes.size(); ++i) {
        if (!NeedsRoom(writes[i])) continue;
        places.push_back(i);
        second.push_back({std::move(writes[i].apply), {}});
      }
      writer_->Apply(second);
      for (size_t i = 0; i < places.size(); ++i) writes[places[i]] = std::move(second[i]);
      return {};
    };
    ran = co_await RunOnWriter(std::move(work));
  }
  writing_now_ = false;
  // A reader that waited for its turn has not shown that writing works again.
  const bool wrote = std::ranges::any_of(waiters, [](const Queued& queued) { return !queued.only_order; });
  if (wrote) health_.last_error.reset();
  for (size_t i = 0; i < writes.size(); ++i) {
    Status outcome = ran ? std::move(writes[i].outcome) : ran;
    if (!outcome && IsOurs(outcome.error().code)) {
      ++health_.failed;
      health_.last_error = outcome.error();
    }
    if (waiters[i].done == nullptr) continue;
    *waiters[i].outcome = std::move(outcome);
    waiters[i].done->Set();
  }
}

async::Task<void> Registry::KeepLogShort() {
  if (moving_) co_return;
  const int pages = writer_->wal_pages();
  if (pages >= kCheckpointMustPages) {
    auto work = [this]() -> Status { return writer_->Checkpoint(); };
    Status done = co_await writing_.Run(work);
    if (!done) health_.last_error = std::move(done.error());
    moved_pages_ = 0;
    co_return;
  }
  moved_pages_ = std::min(moved_pages_, pages);  // it may have begun anew
  if (pages - moved_pages_ < kCheckpointPages) co_return;
  moving_ = true;
  moved_pages_ = pages;
  tasks_.Add(MoveLog());
}

async::Task<void> Registry::MoveLog() {
  auto work = [this]() -> Status { return mover_->Checkpoint(); };
  (void)co_await moving_log_.Run(work);  // what fails here fails in the writer, sooner or later
  moving_ = false;
}

async::Task<Result<Lost>> Registry::MarkLost() {
  auto work = [at = Now()](RegistryWriter& writer) { return writer.MarkLost(at); };
  return Write<Lost>(std::move(work));
}

async::Task<Status> Registry::SessionOpened(NewSession session) {
  auto apply = [session = std::move(session), at = Now()](RegistryWriter& writer) {
    return writer.AddSession(session, at);
  };
  return Enqueue(std::move(apply), Until::kCommitted, Place::kAhead);
}

async::Task<Status> Registry::SessionEnded(std::string id, SessionStatus status, std::string because) {
  auto apply = [id = std::move(id), status, because = std::move(because), at = Now()](RegistryWriter& writer) {
    return writer.EndSession(id, status, because, at);
  };
  return Enqueue(std::move(apply), Until::kCommitted);
}

async::Task<Result<Accepted>> Registry::RunAccepted(NewRun run) {
  auto work = [run = std::move(run), at = Now()](RegistryWriter& writer) { return writer.AddRun(run, at); };
  return Write<Accepted>(std::move(work), Place::kAhead);
}

async::Task<Status> Registry::RunStarted(std::string run, Until until) {
  auto apply = [run = std::move(run), at = Now()](RegistryWriter& writer) { return writer.StartRun(run, at); };
  return Enqueue(std::move(apply), until);
}

async::Task<Status> Registry::RunEnded(RunResult result, Until until) {
  auto apply = [run = EndedRun(std::move(result)), at = Now()](RegistryWriter& writer) mutable {
    return writer.EndRun(run, at);
  };
  return Enqueue(std::move(apply), until);
}

async::Task<Status> Registry::AppendEvents(std::string run, std::vector<EventRecord> events, Until until) {
  const uint64_t last = events.empty() ? 0 : events.back().number;
  events = TailOf(std::move(events), options_);
  auto apply = [run = std::move(run), last, events = std::move(events)](RegistryWriter& writer) {
    return writer.AppendEvents(run, last, events);
  };
  return Enqueue(std::move(apply), until);
}

async::Task<Status> Registry::Audit(AuditEntry entry, Until until) {
  auto apply = [entry = std::move(entry), at = Now()](RegistryWriter& writer) { return writer.AddAudit(entry, at); };
  return Enqueue(std::move(apply), until);
}

async::Task<Status> Registry::AuditCall(CallEntry entry, Until until) {
  auto apply = [entry = std::move(entry), at = Now()](RegistryWriter& writer) { return writer.AddCall(entry, at); };
  return Enqueue(std::move(apply), until);
}

template <typename T, typename F>
async::Task<Result<T>> Registry::Read(F work) {
  if (closing_.is_set()) co_return Err(ErrorCode::kClosed, "the registry is closed");
  if (!ahead_.empty() || !queue_.empty() || writing_now_) {
    auto nothing = [](RegistryWriter&) -> Status { return {}; };
    (void)co_await Enqueue(nothing, Until::kCommitted, Place::kOnlyOrder);  // what failed before is not ours to tell
    if (closing_.is_set()) co_return Err(ErrorCode::kClosed, "the registry is closed");
  }
  auto query = [&]() -> Result<T> { return work(*reader_); };
  auto answer = co_await reading_.Run(query);
  co_return answer;
}

async::Task<Result<std::optional<SessionRecord>>> Registry::FindSession(std::string id) {
  auto work = [id = std::move(id)](RegistryReader& reader) { return reader.FindSession(id); };
  return Read<std::optional<SessionRecord>>(std::move(work));
}

async::Task<Result<Page<SessionRecord>>> Registry::ListSessions(std::optional<std::string> owner, PageQuery query) {
  auto work = [owner = std::move(owner), query = std::move(query)](RegistryReader& reader) {
    return reader.ListSessions(owner, query);
  };
  return Read<Page<SessionRecord>>(std::move(work));
}

async::Task<Result<std::optional<RunRecord>>> Registry::FindRun(std::string id) {
  auto work = [id = std::move(id)](RegistryReader& reader) { return reader.FindRun(id); };
  return Read<std::optional<RunRecord>>(std::move(work));
}

async::Task<Result<std::optional<RunRecord>>> Registry::FindByIdempotencyKey(std::string session, std::string key) {
  auto work = [session = std::move(session), key = std::move(key)](RegistryReader& reader) {
    return reader.FindByIdempotencyKey(session, key);
  };
  return Read<std::optional<RunRecord>>(std::move(work));
}

async::Task<Result<Page<RunRecord>>> Registry::ListRuns(std::string session, PageQuery query) {
  auto work = [session = std::move(session), query = std::move(query)](RegistryReader& reader) {
    return reader.ListRuns(session, query);
  };
  return Read<Page<RunRecord>>(std::move(work));
}

async::Task<Result<std::vector<EventRecord>>> Registry::ListEvents(std::string run, uint64_t from, size_t limit) {
  auto work = [run = std::move(run), from, limit](RegistryReader& reader) {
    return reader.ListEvents(run, from, limit);
  };
  return Read<std::vector<EventRecord>>(std::move(work));
}

async::Task<Result<Page<AuditRecord>>> Registry::ListAudit(std::optional<std::string> who, PageQuery query) {
  auto work = [who = std::move(who), query = std::move(query)](RegistryReader& reader) {
    return reader.ListAudit(who, query);
  };
  return Read<Page<AuditRecord>>(std::move(work));
}

async::Task<Result<Swept>> Registry::Sweep() {
  Swept swept;
  for (bool more = true; more;) {
    auto work = [&swept, at = Now()](RegistryWriter& writer) { return writer.SweepStep(at, swept); };
    CO_TRY(more, co_await Write<bool>(std::move(work)));
  }
  co_return swept;
}

async::Task<void> Registry::Retain() {
  while (!closing_.is_set()) {
    (void)co_await Sweep();
    (void)co_await async::WithDeadline(closing_.Wait(), async::Clock::now() + options_.retention.interval);
  }
}

}  // namespace cella::registry
