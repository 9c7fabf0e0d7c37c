#include "registry/event_log.h"

#include <algorithm>
#include <utility>

namespace cella::registry {
namespace {

constexpr size_t kLargestBatch = size_t{16} << 10;
constexpr uint64_t kIndexEvery = uint64_t{64} << 10;
// For the line that says what is missing.
constexpr uint64_t kMarkerRoom = 256;

uint64_t CountLines(std::string_view bytes) { return static_cast<uint64_t>(std::ranges::count(bytes, '\n')); }

// The length of whole lines within `at_most` bytes, or of the first line when that is longer. 0: not one is whole.
size_t WholeLines(std::string_view bytes, size_t at_most) {
  size_t last = at_most == 0 ? std::string_view::npos : bytes.rfind('\n', at_most - 1);
  if (last == std::string_view::npos) last = bytes.find('\n');
  return last == std::string_view::npos ? 0 : last + 1;
}

// Assigning an empty one would keep the memory.
void Release(std::string& bytes) { std::string().swap(bytes); }

// Behind so many line breaks.
size_t OffsetOfLine(std::string_view bytes, uint64_t lines) {
  size_t offset = 0;
  for (; lines > 0; --lines) offset = bytes.find('\n', offset) + 1;
  return offset;
}

}  // namespace

std::shared_ptr<EventLog> EventLog::Create(async::Loop& loop, std::string path, EventLogLimits limits) {
  return std::shared_ptr<EventLog>(new EventLog(loop, std::move(path), limits));
}

// Less than what Trim leaves, so that it never cuts into what is not yet spilled.
size_t EventLog::batch() const { return std::min(kLargestBatch, limits_.memory / 4); }

void EventLog::Append(std::string_view line) {
  if (ended_ || discarded_) return;
  if (!stopped_ && (index_.empty() ? total_ : total_ - index_.back().offset) >= kIndexEvery) {
    index_.push_back({next_, total_});
  }
  size_t length = tail_.size() + line.size() + 1;
  if (length > limits_.memory) {
    Trim();
    length = tail_.size() + line.size() + 1;
  }
  // Doubling, as the string would by itself, but not beyond what is allowed.
  if (length > tail_.capacity()) {
    tail_.reserve(length <= limits_.memory / 4 ? 2 * length : std::max(length, limits_.memory));
  }
  tail_ += line;
  tail_ += '\n';
  total_ += line.size() + 1;
  ++next_;
  if (!stopped_ && total_ - spilled_ >= batch()) Spill();
  if (tail_.size() > limits_.memory) Trim();
  Wake();
}

void EventLog::Spill() {
  std::string_view waiting = std::string_view(tail_).substr(spilled_ - tail_begin_);
  // The end of the file is for the marker and the last tail.
  uint64_t reserved = limits_.memory + kMarkerRoom;
  uint64_t room = limits_.file > reserved + spilled_ ? limits_.file - reserved - spilled_ : 0;
  if (waiting.size() > room) {
    size_t last = room == 0 ? std::string_view::npos : waiting.rfind('\n', room - 1);
    waiting = waiting.substr(0, last == std::string_view::npos ? 0 : last + 1);
    stopped_ = true;
  }
  if (file_.Append(waiting)) {
    spilled_ += waiting.size();
    spilled_next_ += CountLines(waiting);
  } else {
    stopped_ = true;
  }
  if (stopped_) std::erase_if(index_, [this](const Mark& mark) { return mark.offset >= spilled_; });
}

void EventLog::Trim() {
  size_t keep = limits_.memory / 2;
  if (tail_.size() <= keep) return;
  size_t cut = tail_.find('\n', tail_.size() - keep - 1) + 1;  // there is one at the end
  tail_first_ += CountLines(std::string_view(tail_).substr(0, cut));
  tail_begin_ += cut;
  tail_.erase(0, cut);
  // One long line shall not be paid for until the end.
  if (tail_.capacity() > limits_.memory) tail_.shrink_to_fit();
}

void EventLog::Wake() {
  if (more_) std::exchange(more_, nullptr)->Set();
}

void EventLog::End() {
  ended_ = true;
  Wake();
}

std::string EventLog::Marker(uint64_t first, uint64_t last) const {
  // Its number is the last that is missing: a reader that continues after it misses nothing else.
  return fmt::format(R"({{"n":{},"type":"truncated","stream":"events","dropped":{},"first":{},"last":{}}})", last,
                     last - first + 1, first, last) +
         "\n";
}

void EventLog::Settle() {
  if (!ended_ || discarded_ || tail_.empty()) return;
  if (total_ == tail_.size() && total_ <= limits_.settled) {
    tail_.shrink_to_fit();
    return;
  }
  if (!stopped_) Spill();
  if (spilled_ < total_) {
    bool gap = tail_begin_ > spilled_;
    std::string rest = gap ? Marker(spilled_next_, tail_first_ - 1) : "";
    uint64_t behind_marker = file_.size() + rest.size();
    rest += std::string_view(tail_).substr(gap ? 0 : spilled_ - tail_begin_);
    if (!file_.Append(rest)) {
      tail_.shrink_to_fit();
      return;
    }
    if (gap) {
      tail_in_file_ = behind_marker;
    } else {
      spilled_ = total_;
      spilled_next_ = next_;
    }
  }
  if (tail_in_file_ == 0) {
    tail_begin_ = total_;
    tail_first_ = next_;
  }
  Release(tail_);
  index_.shrink_to_fit();
}

void EventLog::Discard() {
  discarded_ = ended_ = true;
  file_.Remove();
  Release(tail_);
  std::vector<Mark>().swap(index_);
  Wake();
}

EventLog::Reader EventLog::ReadAfter(std::optional<uint64_t> after) {
  uint64_t number = !after ? 0 : *after == UINT64_MAX ? *after : *after + 1;
  return Reader(shared_from_this(), number);
}

Result<uint64_t> EventLog::SkipLines(uint64_t file_offset, uint64_t lines) const {
  std::string buffer(std::min<uint64_t>(kIndexEvery, file_.size() - file_offset), '\0');
  while (lines > 0) {
    TRY(size_t n, file_.ReadAt(file_offset, buffer));
    if (n == 0) return Err(ErrorCode::kInternal, "the log of a run has fewer events than were written to it");
    std::string_view read(buffer.data(), n);
    uint64_t found = CountLines(read);
    if (found >= lines) return file_offset + OffsetOfLine(read, lines);
    lines -= found;
    file_offset += n;
  }
  return file_offset;
}

// Nothing when the event is lost.
Result<std::optional<uint64_t>> EventLog::Find(uint64_t number) const {
  if (number >= tail_first_ && tail_in_file_ == 0) {
    return tail_begin_ + OffsetOfLine(tail_, number - tail_first_);
  }
  if (number >= tail_first_) {
    TRY(uint64_t found, SkipLines(tail_in_file_, number - tail_first_));
    return tail_begin_ + (found - tail_in_file_);
  }
  if (number >= spilled_next_) return std::nullopt;
  auto mark = std::ranges::upper_bound(index_, number, {}, &Mark::number);
  Mark start = mark == index_.begin() ? Mark{0, 0} : *std::prev(mark);
  TRY(uint64_t found, SkipLines(start.offset, number - start.number));
  return found;
}

Result<std::string> EventLog::LinesInFile(uint64_t file_offset, uint64_t end, size_t at_most) const {
  // An event may be longer than what is asked for, and its end is not known before it is read.
  for (size_t wanted = std::max<size_t>(at_most, 1);; wanted *= 2) {
    std::string bytes(static_cast<size_t>(std::min<uint64_t>(wanted, end - file_offset)), '\0');
    TRY(size_t n, file_.ReadAt(file_offset, bytes));
    bytes.resize(n);
    size_t whole = WholeLines(bytes, at_most);
    if (whole == 0 && n == wanted) continue;
    if (whole == 0) return Err(ErrorCode::kInternal, "the log of a run ends within an event");
    bytes.resize(whole);
    return bytes;
  }
}

Result<std::string> EventLog::Reader::Read(size_t at_most) {
  const EventLog& log = *log_;
  if (log.discarded_) return Err(ErrorCode::kClosed, "the run and its events were removed");
  if (number_ >= log.next_) return std::string();
  if (!offset_) {
    TRY(offset_, log.Find(number_));
  }
  // A slow reader is overtaken: what it was about to read has left memory, and was not written either.
  bool lost = !offset_ || (*offset_ >= log.spilled_ && *offset_ < log.tail_begin_);
  if (lost) {
    std::string marker = log.Marker(number_, log.tail_first_ - 1);
    number_ = log.tail_first_;
    offset_ = log.tail_begin_;
    return marker;
  }
  std::string lines;
  if (*offset_ >= log.tail_begin_ && log.tail_in_file_ == 0) {
    std::string_view rest = std::string_view(log.tail_).substr(*offset_ - log.tail_begin_);
    lines = rest.substr(0, WholeLines(rest, at_most));
  } else if (*offset_ >= log.tail_begin_) {
    uint64_t at = log.tail_in_file_ + (*offset_ - log.tail_begin_);
    TRY(lines, log.LinesInFile(at, log.file_.size(), at_most));
  } else {
    TRY(lines, log.LinesInFile(*offset_, log.spilled_, at_most));
  }
  number_ += CountLines(lines);
  *offset_ += lines.size();
  return lines;
}

async::Task<bool> EventLog::Reader::Wait() {
  while (number_ >= log_->next_) {
    if (log_->ended_) co_return false;
    if (!log_->more_) log_->more_ = std::make_shared<async::Event>(log_->loop_);
    // Kept alive here: the code that sets it releases it.
    std::shared_ptr<async::Event> more = log_->more_;
    bool woken = co_await more->Wait();
    if (!woken) co_return false;
  }
  co_return !log_->discarded_;
}

}  // namespace cella::registry
