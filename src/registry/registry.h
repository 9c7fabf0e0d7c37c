// What `cella serve` remembers of its sessions and runs, across restarts. Lives on the loop; the database is written by
// one thread, read by another and tidied by a third. Writes wait in a bounded queue, and share a transaction with
// others that are due: after the await a write survives the death of the process. A task that is cancelled while it
// waits still gets the answer: a write that was queued is done. Close it (and let the task end) before it goes away.
//
// New sessions and new runs, which clients wait for, go ahead of the queue; everything else is written in order. So a
// run may be accepted although the end of its session waits behind it.
//
// Where the disk is full, a write fails only after what retention permits to delete was deleted. A write that fails for
// want of space or rights says so, and later ones try anew.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "async/blocking_pool.h"
#include "async/event.h"
#include "async/gate.h"
#include "async/task.h"
#include "async/task_group.h"
#include "base/result.h"
#include "cella/outcome.h"
#include "registry/reader.h"
#include "registry/types.h"
#include "registry/writer.h"
#include "store/file_lock.h"

namespace cella::registry {

// When the await of a write ends: when it is safe; likewise, but a moment later, to share a commit with others; or when
// it has a place in the queue (which is at once unless the queue is full; a failure is then seen in health() only).
enum class Until { kCommitted, kCommittedSoon, kQueued };

class Registry {
 public:
  // One process at a time has a registry; another gets kExhausted.
  static async::Task<Result<std::unique_ptr<Registry>>> Open(async::Loop& loop, std::string path,
                                                             RegistryOptions options);
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  // Writes what is queued, refuses what comes later, and closes the file.
  async::Task<void> Close();

  // At the start, before the first session: what servers before this one left open is lost now. Their last events stay.
  async::Task<Result<Lost>> MarkLost();

  async::Task<Status> SessionOpened(NewSession session);
  // kClosed or kLost. kNotFound: no such session is open.
  async::Task<Status> SessionEnded(std::string id, SessionStatus status, std::string because);

  // Numbers the run within its session. kNotFound: no such session is open.
  async::Task<Result<Accepted>> RunAccepted(NewRun run);
  async::Task<Status> RunStarted(std::string run, Until until = Until::kCommitted);
  async::Task<Status> RunEnded(RunResult result, Until until = Until::kCommitted);
  // In order. Only the last of a run are kept; one that is larger than all that may be kept is left out.
  async::Task<Status> AppendEvents(std::string run, std::vector<EventRecord> events, Until until = Until::kCommitted);
  async::Task<Status> Audit(AuditEntry entry, Until until = Until::kCommitted);
  async::Task<Status> AuditCall(CallEntry entry, Until until = Until::kCommitted);

  // What is queued is committed now rather than a moment later.
  void Hasten();

  // Reads see every write that was queued before.
  async::Task<Result<std::optional<SessionRecord>>> FindSession(std::string id);
  async::Task<Result<Page<SessionRecord>>> ListSessions(std::optional<std::string> owner, PageQuery query = {});
  async::Task<Result<std::optional<RunRecord>>> FindRun(std::string id);
  async::Task<Result<std::optional<RunRecord>>> FindByIdempotencyKey(std::string session, std::string key);
  async::Task<Result<Page<RunRecord>>> ListRuns(std::string session, PageQuery query = {});
  async::Task<Result<std::vector<EventRecord>>> ListEvents(std::string run, uint64_t from = 0, size_t limit = kMaxPage);
  async::Task<Result<Page<AuditRecord>>> ListAudit(std::optional<std::string> who, PageQuery query = {});

  // Deletes what retention says; happens by itself at its interval.
  async::Task<Result<Swept>> Sweep();

  struct Health {
    size_t queued = 0;
    uint64_t failed = 0;              // such writes, since the start
    std::optional<Error> last_error;  // of the last batch, if it failed for reasons of ours (disk, rights)
  };
  const Health& health() const { return health_; }

 private:
  using Apply = std::move_only_function<Status(RegistryWriter&)>;

  struct Queued {
    RegistryWrite write;
    async::Gate::Pass place;
    async::Event* done;  // of the caller that waits; none: no caller does
    Status* outcome;
    bool only_order;
  };
  // kAhead: before all that is queued. kOnlyOrder: it writes nothing, but what was queued before it has been written
  // when it has.
  enum class Place { kAhead, kInOrder, kOnlyOrder };

  Registry(async::Loop& loop, std::string path, RegistryOptions options);

  async::Task<Status> OpenFiles();
  async::Task<Status> Enqueue(Apply apply, Until until, Place place = Place::kInOrder);
  template <typename T>
  async::Task<Result<T>> Write(std::move_only_function<Result<T>(RegistryWriter&)> work, Place place = Place::kInOrder);
  template <typename T, typename F>
  async::Task<Result<T>> Read(F work);
  async::Task<void> Drain();
  bool IsQueueDue() const;
  async::Task<void> AwaitHurry();
  async::Task<Status> RunOnWriter(std::move_only_function<Status()> work);
  async::Task<void> WriteBatch();
  async::Task<void> KeepLogShort();
  async::Task<void> MoveLog();
  async::Task<void> Retain();
  Timestamp Now() const;

  async::Loop& loop_;
  const std::string path_;
  const RegistryOptions options_;
  std::optional<store::FileLock> lock_;
  // Each is used on the one thread of its pool only.
  std::unique_ptr<RegistryWriter> writer_;
  std::optional<RegistryReader> reader_;
  std::optional<store::Database> mover_;
  async::BlockingPool writing_;
  async::BlockingPool reading_;
  async::BlockingPool moving_log_;
  async::Gate places_;
  std::deque<Queued> ahead_;
  std::deque<Queued> queue_;
  async::TimePoint queue_due_;  // when there is something in it
  bool hurry_ = false;          // a caller waits for what is in the queue
  bool writing_now_ = false;
  bool draining_ = false;
  std::optional<async::Event> wake_;  // of a Drain that waits for company
  async::Event closing_;
  async::TaskGroup tasks_;
  bool moving_ = false;
  int moved_pages_ = 0;  // of the log, when it was last moved
  Health health_;
};

}  // namespace cella::registry
