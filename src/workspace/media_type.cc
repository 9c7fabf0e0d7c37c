#include "workspace/media_type.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace cella::workspace {
namespace {

constexpr std::string_view kUnknown = "application/octet-stream";

// Sorted by extension. Text says its charset, since a browser would guess another.
constexpr auto kTypes = std::to_array<std::pair<std::string_view, std::string_view>>({
    {"arrow", "application/vnd.apache.arrow.file"},
    {"bmp", "image/bmp"},
    {"c", "text/plain; charset=utf-8"},
    {"cc", "text/plain; charset=utf-8"},
    {"css", "text/css; charset=utf-8"},
    {"csv", "text/csv; charset=utf-8"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h", "text/plain; charset=utf-8"},
    {"htm", "text/html; charset=utf-8"},
    {"html", "text/html; charset=utf-8"},
    {"ico", "image/x-icon"},
    {"ipynb", "application/x-ipynb+json"},
    {"java", "text/plain; charset=utf-8"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript; charset=utf-8"},
    {"json", "application/json"},
    {"jsonl", "application/x-ndjson"},
    {"log", "text/plain; charset=utf-8"},
    {"md", "text/markdown; charset=utf-8"},
    {"mjs", "text/javascript; charset=utf-8"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"ndjson", "application/x-ndjson"},
    {"ogg", "audio/ogg"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"png", "image/png"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"py", "text/x-python; charset=utf-8"},
    {"r", "text/plain; charset=utf-8"},
    {"rs", "text/plain; charset=utf-8"},
    {"sh", "application/x-sh"},
    {"sql", "application/sql"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tgz", "application/gzip"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "text/plain; charset=utf-8"},
    {"tsv", "text/tab-separated-values; charset=utf-8"},
    {"txt", "text/plain; charset=utf-8"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
});
static_assert(std::ranges::is_sorted(kTypes));

}  // namespace

std::string_view MediaTypeOf(std::string_view path) {
  std::string_view name = path.substr(path.rfind('/') + 1);
  size_t dot = name.rfind('.');
  // ".json" is a hidden file without an extension.
  if (dot == std::string_view::npos || dot == 0) return kUnknown;
  std::string extension(name.substr(dot + 1));
  for (char& c : extension) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  auto found = std::ranges::lower_bound(kTypes, std::string_view(extension), {}, &decltype(kTypes)::value_type::first);
  return found != kTypes.end() && found->first == extension ? found->second : kUnknown;
}

}  // namespace cella::workspace
