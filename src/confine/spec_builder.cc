#include "confine/spec_builder.h"

#include <cstring>

#include "os/io.h"

namespace cella::confine {

JailSpecBuilder::JailSpecBuilder() { spec_.magic = jail::kSpecMagic; }

jail::StringRef JailSpecBuilder::AddString(std::string_view text) {
  auto offset = static_cast<jail::StringRef>(sizeof(jail::JailSpec) + strings_.size());
  strings_.append(text);
  strings_.push_back('\0');
  return offset;
}

Status JailSpecBuilder::AddMount(std::string_view source, std::string_view target, uint32_t flags) {
  if (spec_.mount_count == jail::kMaxMounts) {
    return Err(ErrorCode::kInvalid, "too many mounts: at most {} fit, the system's own included", jail::kMaxMounts);
  }
  spec_.mounts[spec_.mount_count++] = {AddString(source), AddString(target), flags};
  return {};
}

Status JailSpecBuilder::AddLink(std::string_view target, std::string_view path) {
  if (spec_.link_count == jail::kMaxLinks) return Err(ErrorCode::kInternal, "too many links in the root tree");
  spec_.links[spec_.link_count++] = {AddString(target), AddString(path)};
  return {};
}

Status JailSpecBuilder::AddFile(std::string_view path, std::string_view data) {
  if (spec_.file_count == jail::kMaxFiles) return Err(ErrorCode::kInternal, "too many files in the root tree");
  spec_.files[spec_.file_count++] = {AddString(path), AddString(data), static_cast<uint32_t>(data.size())};
  return {};
}

Result<UniqueFd> JailSpecBuilder::Finish() {
  spec_.size = static_cast<uint32_t>(sizeof spec_ + strings_.size());
  std::string block(reinterpret_cast<const char*>(&spec_), sizeof spec_);
  block += strings_;
  return os::MakeMemfd("cella-spec", std::as_bytes(std::span(block)));
}

Result<UniqueFd> EncodeExec(const ExecRequest& request) {
  std::string refs, strings;
  const size_t base = sizeof(jail::ExecSpec) + (request.argv.size() + request.env.size()) * sizeof(jail::StringRef);
  auto add = [&](std::string_view text) {
    auto offset = static_cast<jail::StringRef>(base + strings.size());
    strings.append(text);
    strings.push_back('\0');
    return offset;
  };
  jail::ExecSpec spec = {};
  spec.magic = jail::kSpecMagic;
  spec.argc = static_cast<uint32_t>(request.argv.size());
  spec.envc = static_cast<uint32_t>(request.env.size());
  spec.program = add(request.program);
  spec.search_path = add(request.search_path);
  spec.cwd = add(request.cwd);
  spec.flags = request.kill_rest ? uint32_t{jail::kKillRest} : 0;
  spec.limits = request.limits;
  for (const auto* list : {&request.argv, &request.env}) {
    for (const std::string& text : *list) {
      jail::StringRef ref = add(text);
      refs.append(reinterpret_cast<const char*>(&ref), sizeof ref);
    }
  }
  spec.size = static_cast<uint32_t>(base + strings.size());
  std::string block(reinterpret_cast<const char*>(&spec), sizeof spec);
  block += refs;
  block += strings;
  return os::MakeMemfd("cella-exec", std::as_bytes(std::span(block)));
}

}  // namespace cella::confine
