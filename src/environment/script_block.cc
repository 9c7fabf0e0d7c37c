#include "environment/script_block.h"

#include <toml++/toml.h>

#include "environment/spec_scanner.h"

namespace cella::environment {
namespace {

constexpr size_t kMaxBlockBytes = 64 * 1024;

// LF, CRLF and CR each end a line.
std::string_view TakeLine(std::string_view& rest) {
  size_t end = rest.find_first_of("\r\n");
  std::string_view line = rest.substr(0, end);
  if (end == std::string_view::npos) {
    rest = {};
  } else {
    rest.remove_prefix(end + (rest.substr(end).starts_with("\r\n") ? 2 : 1));
  }
  return line;
}

bool IsTypeByte(char c) { return IsAlnum(c) || c == '-'; }

// The TYPE of "# /// TYPE"; empty: another line.
std::string_view OpenedType(std::string_view line) {
  constexpr std::string_view kOpening = "# /// ";
  if (!line.starts_with(kOpening)) return {};
  std::string_view type = line.substr(kOpening.size());
  for (char c : type) {
    if (!IsTypeByte(c)) return {};
  }
  return type;
}

bool BelongsToBlock(std::string_view line) { return line == "#" || line.starts_with("# "); }

Result<ScriptBlock> ParseBlock(const std::string& text) {
  auto parsed = toml::parse(text);
  if (!parsed) {
    return Err(ErrorCode::kInvalid, "the '# /// script' block is not TOML: {} (line {} of the block)",
               std::string(parsed.error().description()), parsed.error().source().begin.line);
  }
  const toml::table& table = parsed.table();
  ScriptBlock block;
  if (const toml::node* python = table.get("requires-python")) {
    const auto* value = python->as_string();
    if (value == nullptr) return Err(ErrorCode::kInvalid, "requires-python in the script block must be a string");
    auto specifiers = ParseSpecifiers(value->get());
    if (!specifiers) return std::unexpected(std::move(specifiers.error()).WithContext("requires-python"));
    block.requires_python = std::move(*specifiers);
  }
  if (const toml::node* dependencies = table.get("dependencies")) {
    const auto* list = dependencies->as_array();
    if (list == nullptr) return Err(ErrorCode::kInvalid, "dependencies in the script block must be a list of strings");
    std::vector<std::string> texts;
    for (const toml::node& item : *list) {
      const auto* value = item.as_string();
      if (value == nullptr)
        return Err(ErrorCode::kInvalid, "dependencies in the script block must be a list of strings");
      texts.push_back(value->get());
    }
    TRY(block.packages, ParseRequirements(texts));
  }
  return block;
}

}  // namespace

Result<ScriptReading> ReadScriptBlock(std::string_view code) {
  if (code.starts_with("\xEF\xBB\xBF")) code.remove_prefix(3);
  ScriptReading reading;
  // Most scripts have none.
  if (!code.contains("# /// script")) return reading;
  while (!code.empty()) {
    std::string_view type = OpenedType(TakeLine(code));
    if (type.empty()) continue;
    std::string content;  // up to the last closing line so far
    std::string pending;  // behind it
    bool closed = false;
    bool names_script = type == "script";
    std::string_view after = code;
    std::string_view end = code;  // of the comment
    for (std::string_view rest = code; !rest.empty();) {
      std::string_view line = TakeLine(rest);
      if (!BelongsToBlock(line)) break;
      end = rest;
      names_script = names_script || OpenedType(line) == "script";
      if (line == "# ///") {
        content += pending;
        pending.clear();
        closed = true;
        after = rest;
        // A line like this one before the last of its kind is content.
        pending = "///\n";
        continue;
      }
      pending += line.substr(line.size() > 1 ? 2 : 1);
      pending += '\n';
      if (content.size() + pending.size() > kMaxBlockBytes) {
        return Err(ErrorCode::kInvalid, "the '# /// {}' block of the script is larger than 64 KiB", type);
      }
    }
    if (!closed) {
      // Nor has any other block that opens in the same comment: to look at each would take the square of its length.
      if (names_script) reading.warning = "the '# /// script' block has no closing '# ///' line";
      code = end;
      continue;
    }
    if (content.empty()) {
      if (type == "script") reading.warning = "the '# /// script' block is empty";
      continue;
    }
    code = after;
    if (type != "script") continue;
    if (reading.block) return Err(ErrorCode::kInvalid, "the script has two '# /// script' blocks; keep one");
    TRY(reading.block, ParseBlock(content));
  }
  return reading;
}

}  // namespace cella::environment
