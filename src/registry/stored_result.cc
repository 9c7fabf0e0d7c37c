#include "registry/stored_result.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text.h"
#include "session/fold.h"
#include "session/json.h"

namespace cella::registry {
namespace {

// Keeps `room` bytes of the text, whole characters, half from each end. Returns how many went.
size_t Shorten(std::string& text, size_t room) {
  if (text.size() <= room) return 0;
  std::string head = text.substr(0, room / 2);
  head.resize(head.size() - IncompleteUtf8Tail(head));
  size_t tail = text.size() - room / 2;
  while (tail < text.size() && (static_cast<unsigned char>(text[tail]) & 0xc0) == 0x80) ++tail;
  const size_t gone = tail - head.size();
  text = fmt::format("{}\n[... {} bytes dropped ...]\n{}", head, gone, std::string_view(text).substr(tail));
  return gone;
}

}  // namespace

std::string StoredResult(RunResult result, size_t cap) {
  // Rendering what cannot fit would take long, and the others of the batch wait.
  size_t bytes = result.stdout_text.size() + result.stderr_text.size();
  for (const MimeBundle& output : result.outputs) bytes += SizeOf(output);
  std::string json = bytes <= cap ? session::ToJson(result) : "";
  if (!json.empty() && json.size() <= cap) return json;
  for (MimeBundle& output : result.outputs) {
    const size_t left_out = output.left_out.size();
    output = session::WithoutLargeData(output);
    if (output.left_out.size() > left_out && left_out == 0) ++result.outputs_dropped;
  }
  bytes = result.stdout_text.size() + result.stderr_text.size();
  for (const MimeBundle& output : result.outputs) bytes += SizeOf(output);
  json = bytes <= cap ? session::ToJson(result) : "";
  if (!json.empty() && json.size() <= cap) return json;
  const auto whole = [](const MimeBundle& output) { return output.left_out.empty(); };
  result.outputs_dropped += static_cast<uint64_t>(std::ranges::count_if(result.outputs, whole));
  result.outputs.clear();
  result.items.clear();
  result.files_complete = result.files_complete && result.files.empty();
  result.files.clear();
  // A character may take six bytes of JSON, so how much fits is found by trying.
  for (size_t room = cap / 2; room >= 16; room /= 2) {
    RunResult cut = result;
    cut.stdout_dropped += Shorten(cut.stdout_text, room);
    cut.stderr_dropped += Shorten(cut.stderr_text, room);
    if (cut.value) (void)Shorten(*cut.value, room);
    if (auto& error = cut.outcome.error) {
      for (std::string* text : {&error->name, &error->message, &error->traceback}) (void)Shorten(*text, room);
    }
    json = session::ToJson(cut);
    if (json.size() <= cap) return json;
  }
  return {};
}

std::string StoredUsage(const Usage& usage) {
  auto finite = [](double value) { return std::isfinite(value) ? value : 0.0; };
  return fmt::format(R"({{"wall_ms":{:.3f},"cpu_ms":{:.3f},"peak_memory":{}}})", finite(usage.wall_ms),
                     finite(usage.cpu_ms), usage.peak_memory);
}

}  // namespace cella::registry
