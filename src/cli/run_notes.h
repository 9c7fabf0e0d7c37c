// What `cella run` adds for people behind the output of a run: files that are discarded, and the option that
// would have helped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cella/event.h"
#include "cella/executors.h"
#include "cella/outcome.h"
#include "cella/policy.h"

namespace cella::cli {

class RunNotes {
 public:
  // For the run's output as it comes. Only the end of standard error is kept.
  void See(Stream stream, std::string_view bytes);

  // "cella: …" with the option that would have helped, or nothing.
  std::string Advice(ExecutorKind executor, Network network) const;

 private:
  std::string stderr_end_;
};

// "2 files discarded: plot.png, data/x.csv (--out DIR keeps them)", or nothing.
std::string DiscardedFiles(const std::vector<FileChange>& files);

}  // namespace cella::cli
