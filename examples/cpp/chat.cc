// An agent's side of a conversation: each line of standard input is Python code, which runs in one session: in a
// sandbox, or with `chat inprocess` in this very process, for trusted code. Output comes while the code runs. Exits
// with 0 at the end of input.
#include <cella/session.h>

#include <iostream>
#include <string>

namespace {

void Print(const cella::Event& event) {
  if (const auto* output = std::get_if<cella::OutputEvent>(&event)) {
    std::cout << output->bytes << std::flush;
  } else if (const auto* value = std::get_if<cella::ValueEvent>(&event)) {
    std::cout << "= " << value->text << '\n';
  } else if (const auto* failed = std::get_if<cella::ErrorEvent>(&event)) {
    std::cout << failed->error.name << ": " << failed->error.message << '\n';
  }
}

// False: the session is of no more use.
bool Answer(cella::Session& session, const std::string& code) {
  auto run = session.Start(code);
  if (!run) {
    std::cerr << "chat: " << run.error().message << '\n';
    return false;
  }
  for (;;) {
    const auto event = run->Next();
    if (!event || !event->has_value()) break;
    Print(**event);
  }
  const auto result = run->Wait();
  if (!result) {
    std::cerr << "chat: " << result.error().message << '\n';
    return false;
  }
  const cella::Outcome& outcome = result->outcome;
  if (outcome.status != cella::RunStatus::kOk && outcome.status != cella::RunStatus::kError) {
    std::cout << "(" << cella::ToString(outcome.status) << ")\n";
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  cella::SessionOptions options;
  options.policy.limits.timeout.value = std::chrono::seconds(10);
  if (argc > 1 && std::string(argv[1]) == "inprocess") options.executor = cella::ExecutorKind::kInProcess;
  auto session = cella::Session::Open(options);
  if (!session) {
    std::cerr << "chat: " << session.error().message << '\n';
    return 1;
  }
  // The code calls it as tools.shout("text"); it runs here, in this program.
  const auto added = session->tools().add(
      "shout",
      [](std::string text) {
        for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
        return text;
      },
      {"text"}, "Text in capitals.");
  if (!added) {
    std::cerr << "chat: " << added.error().message << '\n';
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    if (!line.empty() && !Answer(*session, line)) return 1;
  }
  return 0;
}
