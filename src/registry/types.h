// What the registry keeps: sessions, their runs, the last events of runs, and who did what. Plain values. Of guest code
// there is only its hash and its size.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cella/outcome.h"

namespace cella::registry {

// Of the system clock, for people. It may jump, so nothing is ordered by it.
using Timestamp = std::chrono::sys_time<std::chrono::milliseconds>;

enum class SessionStatus {
  kOpen,
  kClosed,
  kLost,  // ended without a request: the jail or the server died
};

std::string_view ToString(SessionStatus status);

struct NewSession {
  std::string id;
  std::string owner;
  std::string name;
  std::string labels = "{}";  // a JSON object
  std::string executor;
  std::string policy = "{}";     // a JSON object; values of secrets are for the caller to leave out
  std::string resources = "{}";  // a JSON object: what it holds of the host, for the sweep after a crash
};

struct SessionRecord : NewSession {
  std::string instance;  // of the server
  SessionStatus status = SessionStatus::kOpen;
  uint64_t runs = 0;  // accepted so far
  Timestamp created_at;
  std::optional<Timestamp> closed_at;
  std::string closed_because;
};

struct NewRun {
  std::string id;
  std::string session;  // empty: a one-shot run
  std::string owner;
  std::string language;
  std::string code_sha256;
  uint64_t code_bytes = 0;
  std::optional<std::string> idempotency_key;  // of its session
  bool chosen_id = false;                      // by the client, so that it may be that of an earlier run
};

struct RunRecord : NewRun {
  uint64_t number = 0;  // in its session, from 1; 0 for a one-shot run
  std::string instance;
  std::string status;  // "queued", "running", the status of its Result, or "lost"
  std::optional<int> exit_code;
  std::string state;  // "": not known yet
  Timestamp created_at;
  std::optional<Timestamp> started_at;
  std::optional<Timestamp> ended_at;
  std::string usage;        // a JSON object; "": not known
  std::string result;       // the Result as JSON; "": there is none, or this is a list
  uint64_t last_event = 0;  // the number of the last one that was appended
};

// What became of a run that was to be accepted.
struct Accepted {
  enum class As {
    kNew,
    kRepeated,  // its key is that of an earlier run of the same code, which is named here; nothing was written
    kConflict,  // its key is that of an earlier run of other code
    kTaken,     // its id is that of an earlier run, of any session
  };
  As as = As::kNew;
  std::string run;
  uint64_t number = 0;
};

struct EventRecord {
  uint64_t number = 0;
  std::string event;  // JSON
};

struct AuditEntry {
  std::string who;
  std::string action;  // "session.open", "run", …
  std::string session;
  std::string run;
  std::string code_sha256;
  std::string outcome;
  std::string usage;  // a JSON object
};

// A call of a guest to the host. Its name is the guest's choice; arguments and results are not kept.
struct CallEntry {
  std::string who;
  std::string session;
  std::string run;
  std::string name;     // "tools.lookup"
  std::string outcome;  // "ok", "error", "refused", "cancelled"
  double wall_ms = 0;
};

struct AuditRecord : AuditEntry {
  Timestamp at;
};

// What an earlier server left open.
struct Lost {
  std::vector<SessionRecord> sessions;
  std::vector<RunRecord> runs;
};

enum class Order { kOldestFirst, kNewestFirst };

struct PageQuery {
  std::string after = "";  // `next` of the page before; empty: from the beginning
  size_t limit = 100;      // at most kMaxPage
  Order order = Order::kOldestFirst;
};
inline constexpr size_t kMaxPage = 1000;

// Rows that are added or deleted meanwhile shift nothing: each row is on one page at most.
template <typename T>
struct Page {
  std::vector<T> items;
  std::string next;  // opaque; empty: this was the last one
};

struct Retention {
  std::chrono::hours age = std::chrono::days(30);  // of closed sessions and ended runs
  uint64_t max_runs = 100'000;                     // the oldest that have ended go first
  uint64_t max_sessions = 100'000;                 // closed ones; likewise
  uint64_t max_bytes = uint64_t{1} << 30;          // likewise
  std::chrono::hours audit_age = std::chrono::days(365);
  uint64_t max_audit = 1'000'000;
  std::chrono::seconds interval = std::chrono::minutes(10);  // zero: only when Sweep is called
};

struct Swept {
  uint64_t runs = 0;
  uint64_t sessions = 0;
  uint64_t audit = 0;
};

// What is kept of a run's end. The Result is rendered at the first attempt to write it; a second one uses the text.
struct EndedRun {
  explicit EndedRun(RunResult ended)
      : id(ended.id), outcome(ended.outcome), state(ended.state), result(std::move(ended)) {}

  std::string id;
  Outcome outcome;
  StateAfter state;
  std::optional<RunResult> result;  // until it is rendered
  std::string text;
};

struct RegistryOptions {
  std::string instance;  // names this server; every start has another
  size_t queue = 1024;   // writes that may wait
  size_t result_bytes = size_t{1} << 20;
  size_t tail_events = 64;  // kept per run
  size_t tail_bytes = size_t{64} << 10;
  Retention retention;
  std::function<Timestamp()> now;  // else the system clock
  // Called on the loop when the disk is full: the owner removes some files that it can do without. False: it has none.
  std::function<bool()> free_disk;
};

}  // namespace cella::registry
