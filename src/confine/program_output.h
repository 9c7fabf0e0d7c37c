// What a program writes to its two pipes, turned into events: read as it comes, left in the pipe while the reader of
// the events lags behind, and closed when that reader is gone. One per execution; lives on the loop.
#pragma once

#include <cstddef>

#include "async/ready_set.h"
#include "base/unique_fd.h"
#include "cella/event.h"
#include "language/code_name.h"
#include "run/output.h"

namespace cella::confine {

// So much of a pipe is read at once.
inline constexpr size_t kReadSize = 65536;
// What /proc/sys/fs/pipe-max-size allows a guest to make of its pipe, at most.
inline constexpr size_t kLargestPipe = (size_t{1} << 20) + kReadSize;

class ProgramOutput {
 public:
  // The keys of the pipes in the set; an execution's own keys begin at kFirstFree.
  enum Key { kStdout, kStderr, kFirstFree };

  // The set outlives this. `name` hides the generated name of the code in what standard error shows.
  ProgramOutput(async::ReadySet& ready, language::CodeName name);
  ProgramOutput(const ProgramOutput&) = delete;
  ProgramOutput& operator=(const ProgramOutput&) = delete;

  // The read ends, which must not block, in the place of earlier ones.
  Status Open(UniqueFd out, UniqueFd err);
  // Leaves what is written in the pipe of each stream that is full.
  void HoldFull(const run::Output& out);
  // One read, after the set has returned this key. Does nothing for a key that is not one of ours.
  void Read(int key, run::Output& out);
  // The program has ended, so that what it wrote is in the pipes. Another process may still hold a write end (a process
  // that the program left behind, or one of another jail that got it over a shared directory): that is no reason to
  // wait, nor to take more than a pipe can hold.
  void ReadRest(run::Output& out);
  // The reader of this stream is gone: the program gets a closed pipe.
  void Close(Stream stream);

 private:
  struct Pipe {
    Stream stream;
    Key key;
    UniqueFd fd = {};
    bool held = false;
  };

  bool ReadOnce(Pipe& pipe, run::Output& out);
  void ReadRest(Pipe& pipe, run::Output& out);
  void Hold(Pipe& pipe, bool hold);
  void Close(Pipe& pipe);

  async::ReadySet& ready_;
  language::CodeName name_;
  Pipe out_{Stream::kStdout, kStdout}, err_{Stream::kStderr, kStderr};
};

}  // namespace cella::confine
