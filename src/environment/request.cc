#include "environment/request.h"

#include <sys/utsname.h>

#include "base/sha256.h"

namespace cella::environment {
namespace {

// Raised when environments are laid out differently.
constexpr std::string_view kLayout = "1";
constexpr size_t kKeyDigits = 32;

std::string Machine() {
  struct utsname names;
  return ::uname(&names) == 0 ? std::string(names.machine) : std::string("unknown");
}

class Key {
 public:
  void Add(std::string_view part) {
    text_ += std::to_string(part.size());
    text_ += ':';
    text_ += part;
  }
  void Add(const BasePython& python) {
    Add(kLayout);
    Add(Machine());
    Add(python.executable);
    Add(python.version);
  }
  std::string Finish() const { return Sha256Hex(text_).substr(0, kKeyDigits); }

 private:
  std::string text_;
};

}  // namespace

std::string RequestKey(const Request& request) {
  Key key;
  key.Add(request.python);
  for (const auto* list : {&request.packages, &request.constraints}) {
    key.Add(std::to_string(list->size()));
    for (const Requirement& requirement : *list) key.Add(requirement.text);
  }
  for (const std::string& line : request.pinned) key.Add(line);
  key.Add(request.index);
  return key.Finish();
}

std::string ContentKey(const BasePython& python, const std::string& lock) {
  Key key;
  key.Add(python);
  key.Add(python.stamp);
  key.Add(lock);
  return key.Finish();
}

}  // namespace cella::environment
