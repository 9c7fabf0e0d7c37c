// An engine of the application's own: a thread, the executors' helpers and the sessions. Without one, sessions share
// the engine of the process, which is made on first use.
#pragma once

#include <memory>

#include "cella.h"
#include "cella/expected.h"

namespace cella {

namespace detail {

struct Deleter {
  void operator()(cella_engine* engine) const { cella_engine_free(engine); }
  void operator()(cella_session* session) const { cella_session_free(session); }
  void operator()(cella_run* run) const { cella_run_free(run); }
  void operator()(cella_run_spec* spec) const { cella_run_spec_free(spec); }
  void operator()(cella_result* result) const { cella_result_free(result); }
  void operator()(cella_event* event) const { cella_event_free(event); }
  void operator()(cella_bytes* bytes) const { cella_bytes_free(bytes); }
  void operator()(cella_listing* listing) const { cella_listing_free(listing); }
};
template <typename T>
using Handle = std::unique_ptr<T, Deleter>;

inline Failure TakeFailure(cella_error* error) {
  Failure failure;
  if (error == nullptr) {
    failure.message = "no memory is left";
    failure.code = Failure::Code::kExhausted;
    return failure;
  }
  failure.code = static_cast<Failure::Code>(cella_error_code(error));
  failure.message = cella_error_message(error);
  cella_error_free(error);
  return failure;
}

// What a function returned that stores its error at `error`.
template <typename Work>
Expected<void> Try(Work work) {
  cella_error* error = nullptr;
  if (work(&error)) return {};
  return TakeFailure(error);
}

}  // namespace detail

class Engine {
 public:
  static Expected<Engine> Create() {
    cella_error* error = nullptr;
    cella_engine* engine = cella_engine_new(&error);
    if (engine == nullptr) return detail::TakeFailure(error);
    return Engine(engine);
  }

  cella_engine* handle() const { return handle_.get(); }

 private:
  explicit Engine(cella_engine* engine) : handle_(engine) {}
  detail::Handle<cella_engine> handle_;
};

// "0.1.0"
inline const char* Version() { return cella_version(); }

}  // namespace cella
