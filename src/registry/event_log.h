// The numbered events of one run, as JSON lines, for any number of readers at their own pace: clients that follow a run
// live, and clients that come back after a lost connection. Everything goes to a file in batches, unless it is little;
// the newest part is also in memory while the run is on. Beyond the bound of the file, or when the disk is full, the
// first part and the newest part remain, and a line in between says which numbers are missing. The run never fails or
// waits for any of it. Lives on the loop. An idle log holds no descriptor; one without events holds less than a
// kilobyte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "async/event.h"
#include "async/task.h"
#include "base/result.h"
#include "registry/spill_file.h"

namespace cella::registry {

struct EventLogLimits {
  size_t memory = size_t{64} << 10;
  size_t settled = size_t{1} << 10;  // what a log may hold that is over: less than its file would take
  uint64_t file = uint64_t{64} << 20;
};

class EventLog : public std::enable_shared_from_this<EventLog> {
 public:
  // The file is made when there is something to write; it stays until Discard.
  static std::shared_ptr<EventLog> Create(async::Loop& loop, std::string path, EventLogLimits limits = {});

  // The next event, numbered from 0 as EventEncoder does; without a line break.
  void Append(std::string_view line);
  // No more will come. Touches no file, so that an answer need not wait for one.
  void End();
  // After End, when there is time: what is in memory goes to disk, unless it is little. If that is full, it stays in
  // memory.
  void Settle();
  // The run is forgotten: removes the file; readers end with kClosed.
  void Discard();

  uint64_t next_number() const { return next_; }
  bool ended() const { return ended_; }
  uint64_t disk_bytes() const { return file_.size(); }
  size_t memory_used() const { return sizeof *this + tail_.capacity() + index_.capacity() * sizeof(Mark); }

  class Reader {
   public:
    // Whole lines, each with its line break: about `at_most` bytes, but at least one line where there is one. Empty
    // when there is nothing new. kClosed when the log was discarded.
    Result<std::string> Read(size_t at_most = size_t{64} << 10);
    // True when there is something to read; false at the end, or when cancelled. The reader must outlive the wait.
    async::Task<bool> Wait();
    // Everything was read, and nothing more will come.
    bool at_end() const { return log_->ended_ && number_ >= log_->next_; }

   private:
    friend class EventLog;
    Reader(std::shared_ptr<EventLog> log, uint64_t number) : log_(std::move(log)), number_(number) {}

    std::shared_ptr<EventLog> log_;
    uint64_t number_;                 // of the event to read next
    std::optional<uint64_t> offset_;  // where that begins; found at the first read
  };
  // What follows the event `after`, or everything. The number may lie ahead.
  Reader ReadAfter(std::optional<uint64_t> after);

 private:
  // Offsets count the bytes of all lines ever appended. The file holds [0, spilled_) at its beginning; memory holds
  // [tail_begin_, total_). What lies between is lost. After Settle the tail is in the file too, behind a marker.
  struct Mark {
    uint64_t number;
    uint64_t offset;
  };

  EventLog(async::Loop& loop, std::string path, EventLogLimits limits)
      : loop_(loop), limits_(limits), file_(std::move(path)) {}
  size_t batch() const;
  void Spill();
  void Trim();
  void Wake();
  std::string Marker(uint64_t first, uint64_t last) const;
  Result<std::optional<uint64_t>> Find(uint64_t number) const;
  Result<uint64_t> SkipLines(uint64_t file_offset, uint64_t lines) const;
  Result<std::string> LinesInFile(uint64_t file_offset, uint64_t end, size_t at_most) const;

  async::Loop& loop_;
  EventLogLimits limits_;
  SpillFile file_;
  std::string tail_;
  uint64_t tail_begin_ = 0;
  uint64_t tail_first_ = 0;  // the number of its first line
  uint64_t total_ = 0;
  uint64_t next_ = 0;
  uint64_t spilled_ = 0;
  uint64_t spilled_next_ = 0;  // the number of the first event behind it
  std::vector<Mark> index_;    // of the spilled part, so that finding a number does not read all of it
  uint64_t tail_in_file_ = 0;  // where the tail is in the file, after Settle; 0: it is not
  std::shared_ptr<async::Event> more_;
  bool stopped_ = false;  // the file takes no more
  bool ended_ = false;
  bool discarded_ = false;
};

}  // namespace cella::registry
