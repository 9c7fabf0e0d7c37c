// Writes a tar archive piece by piece: ustar, with pax headers where a name, size or time does not fit. No I/O in here:
// describe entries and give their content, take what has become ready with Take. Memory: what was not yet taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "workspace/tar_format.h"

namespace cella::workspace {

class TarWriter {
 public:
  void AddDirectory(const std::string& path, int64_t modified_s);

  // The size is a promise: exactly that much follows, by Write and Fill.
  void BeginFile(const TarFile& file);
  uint64_t wanted() const { return wanted_; }  // of the file's content
  // What goes beyond the promise is dropped: the file grew.
  void Write(std::string_view content);
  // Zeros in place of content that is not there any more: the file shrank. As many as are wanted, in pieces, since the
  // promise may have been a large one.
  void Fill(size_t at_most);

  // After the last file.
  void Finish();

  size_t ready() const { return out_.size(); }
  std::string Take() { return std::exchange(out_, {}); }

 private:
  void Header(const TarFile& file, char type);
  void Block(const std::string& path, uint64_t size, int64_t modified_s, char type, bool executable);
  void Advance(uint64_t content);

  std::string out_;
  uint64_t wanted_ = 0;
  uint64_t padding_ = 0;
};

}  // namespace cella::workspace
