// What was found out about this machine: plain values, no judgement. Gathered by gather.h, judged by judge.h; a test
// makes them up.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cella/outcome.h"

namespace cella::doctor {

// One mechanism, really tried.
struct Attempt {
  bool tried = false;
  int error = 0;  // errno

  bool ok() const { return tried && error == 0; }
  bool failed() const { return tried && error != 0; }
};

// How far the basis of a jail came: a user namespace with mapped ids, and a tmpfs mounted inside.
enum class BasisStage { kDropUser, kUserNamespace, kMapIds, kMountNamespace, kPrivateMounts, kTmpfs };

// Trivially copyable: the probes write it into memory that they share with their parent.
struct KernelAttempts {
  Attempt basis;
  BasisStage basis_stage = BasisStage::kDropUser;  // where it failed
  Attempt pid, net, ipc, uts, cgroup;              // namespaces, one by one
  Attempt together;                                // all of a jail's at once, by clone3
  Attempt proc;                                    // a fresh /proc in nested user and pid namespaces
  Attempt overlay;                                 // overlayfs in a user namespace
  Attempt seccomp;
  Attempt idmap;  // only as root
  bool timed_out = false;
};

// How the launcher builds a jail depends on who started it.
enum class Builder {
  kOrdinary,    // in a user namespace of its own
  kPrivileged,  // root with CAP_SYS_ADMIN
  kDropFirst,   // root without it: as an unprivileged user id, then as an ordinary user
};

struct HostFacts {
  std::string kernel_release;  // "6.1.0-18-amd64"
  std::string machine;         // "x86_64"
  Builder builder = Builder::kOrdinary;
  uint32_t uid = 0;
  // Absent: this kernel has no such switch.
  std::optional<int64_t> unprivileged_userns_clone;
  std::optional<int64_t> max_user_namespaces;
  std::optional<int64_t> apparmor_restrict_userns;
  bool chrooted = false;
  std::string container;  // "docker", "podman", "kubernetes", …; empty: none was recognised
  bool seccomp_filtered = false;
  int landlock_abi = 0;
  int landlock_error = 0;  // errno when the ABI is 0
  std::string lsm;         // "lockdown,capability,apparmor"; empty: unknown
  uint64_t swap_bytes = 0;
  std::string directory;  // where idmapped mounts were tried
};

struct CgroupFacts {
  std::string version = "none";  // "v1", "v2"
  bool memory = false, pids = false, cpu = false, cpuacct = false;
  std::string reason = {};   // what is lacking, why, and the remedy
  std::string failure = {};  // of an attempt to make a group with limits; empty: it worked, or there was none
  std::optional<bool> swap_accounted = {};  // absent: unknown
};

// One address at which a container engine may listen.
struct EngineAddress {
  std::string engine;  // "docker", "podman"
  std::string address;
  bool remote = false;  // not a socket file: not contacted
  int error = 0;        // errno of connect()
};

struct LanguageFact {
  std::string name;
  std::string program = {};   // empty: none was found
  std::string version = {};   // empty: it did not tell
  std::string obstacle = {};  // why there is none; for a missing one the install hint is enough
  std::string install = {};
};

struct PythonFact {
  std::string path;
  std::string version;
};

struct KernelspecFact {
  std::string name;
  std::string display_name;
  std::string directory;
};

// A guest that was really run.
struct ProofFacts {
  bool tried = false;
  bool ok = false;
  std::string language;
  std::string message;  // of the failure
  double total_ms = 0;  // from the start of `cella run` to its end
  Isolation isolation;
};

struct Facts {
  std::string version;             // of cella
  std::string launcher;            // real path of cella-launch; empty: not found
  std::string installation_error;  // empty: complete
  HostFacts host;
  KernelAttempts kernel;
  CgroupFacts cgroup;
  std::vector<EngineAddress> engines;
  std::vector<LanguageFact> languages;
  std::vector<PythonFact> pythons;
  std::vector<KernelspecFact> kernelspecs;
  ProofFacts proof;
};

}  // namespace cella::doctor
