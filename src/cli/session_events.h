// Shows the events of a run as `cella session run` prints them: text as it comes, displays by their text, and how the
// run ended where its output does not show it.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "cella/outcome.h"

namespace cella::cli {

class SessionEvents {
 public:
  void Show(const nlohmann::ordered_json& event);
  // The run's, once it has finished.
  int exit_code() const { return exit_code_; }

 private:
  void ShowEnd(const nlohmann::ordered_json& event) const;

  int exit_code_ = kExitRejected;
  bool error_shown_ = false;
};

}  // namespace cella::cli
