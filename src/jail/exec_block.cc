#include "jail/exec_block.h"

#include <sys/mman.h>

#include "jail/messages.h"

namespace cella::jail {

Failure ExecBlock::Map(int fd) {
  spec_ = static_cast<const ExecSpec*>(MapBlock(fd, sizeof(ExecSpec), &size_));
  errno = EPROTO;
  if (spec_ == nullptr || spec_->magic != kSpecMagic || spec_->size != size_) return Fail(Stage::kRequest, "exec");
  // In memory of its own: the block may be larger than any stack.
  table_bytes_ = (static_cast<size_t>(spec_->argc) + spec_->envc + 2) * sizeof(char*);
  void* table = mmap(nullptr, table_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (table == MAP_FAILED) return Fail(Stage::kFork, "argument table");
  argv_ = static_cast<char**>(table);
  const auto* refs = reinterpret_cast<const StringRef*>(spec_ + 1);
  for (uint32_t i = 0; i < spec_->argc; ++i) argv_[i] = const_cast<char*>(At(spec_, refs[i]));
  char** envp = argv_ + spec_->argc + 1;
  for (uint32_t i = 0; i < spec_->envc; ++i) envp[i] = const_cast<char*>(At(spec_, refs[spec_->argc + i]));
  return kOk;
}

ExecBlock::~ExecBlock() {
  if (argv_ != nullptr) munmap(argv_, table_bytes_);
  if (spec_ != nullptr) munmap(const_cast<ExecSpec*>(spec_), size_);
}

}  // namespace cella::jail
