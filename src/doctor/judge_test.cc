#include "doctor/judge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "doctor/language_probe.h"
#include "doctor/proof.h"

namespace cella::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr Attempt kWorked{true, 0};

Attempt Failed(int error) { return {true, error}; }

// An ordinary user on a healthy machine.
Facts Healthy() {
  Facts facts;
  facts.version = "1.2.3";
  facts.launcher = "/usr/libexec/cella/cella-launch";
  facts.host.kernel_release = "6.12.0";
  facts.host.machine = "x86_64";
  facts.host.uid = 1000;
  facts.host.max_user_namespaces = 63000;
  facts.host.landlock_abi = 6;
  facts.host.directory = "/home/user";
  KernelAttempts& kernel = facts.kernel;
  kernel.basis = kernel.pid = kernel.net = kernel.ipc = kernel.uts = kernel.cgroup = kWorked;
  kernel.together = kernel.proc = kernel.overlay = kernel.seccomp = kWorked;
  facts.cgroup = {.version = "v2", .memory = true, .pids = true, .cpu = true, .cpuacct = true};
  facts.proof.tried = facts.proof.ok = true;
  facts.proof.language = "sh";
  facts.proof.isolation.namespaces = {"user", "mount", "pid", "net", "ipc", "uts", "cgroup"};
  facts.proof.isolation.proc = "own";
  return facts;
}

// The same machine where a jail's basis fails: nothing behind it is tried, and the run fails as well.
Facts Refusing(BasisStage stage, int error) {
  Facts facts = Healthy();
  Attempt seccomp = facts.kernel.seccomp;
  facts.kernel = {};
  facts.kernel.seccomp = seccomp;
  facts.kernel.basis = Failed(error);
  facts.kernel.basis_stage = stage;
  facts.proof.ok = false;
  facts.proof.message = "the sandbox could not create a user namespace";
  return facts;
}

const Check& Named(const Report& report, std::string_view name) {
  for (const Check& check : report.checks) {
    if (check.name == name) return check;
  }
  static const Check none{.name = "none", .status = CheckStatus::kInfo, .detail = ""};
  ADD_FAILURE() << "no check " << name;
  return none;
}

TEST(JudgeTest, HealthyMachineHasNoFixes) {
  Report report = Judge(Healthy());
  EXPECT_TRUE(report.sandbox);
  EXPECT_EQ(report.version, "1.2.3");
  for (const Check& check : report.checks) {
    EXPECT_TRUE(check.status == CheckStatus::kOk || check.status == CheckStatus::kInfo) << check.name;
    EXPECT_THAT(check.fix, IsEmpty()) << check.name;
  }
}

TEST(JudgeTest, UbuntuGetsAProfileForTheInstalledLauncher) {
  // Ubuntu 24.04: the namespace comes, but without capabilities, so that the maps are refused.
  for (BasisStage stage : {BasisStage::kUserNamespace, BasisStage::kMapIds, BasisStage::kTmpfs}) {
    Facts facts = Refusing(stage, stage == BasisStage::kTmpfs ? EACCES : EPERM);
    facts.host.apparmor_restrict_userns = 1;
    facts.launcher = "/opt/cella/libexec/cella/cella-launch";
    Report report = Judge(facts);
    EXPECT_FALSE(report.sandbox);
    const Check& check = Named(report, "user_namespaces");
    EXPECT_EQ(check.status, CheckStatus::kMissing);
    EXPECT_THAT(check.detail, HasSubstr("AppArmor"));
    EXPECT_THAT(check.fix,
                HasSubstr("'profile cella-launch /opt/cella/libexec/cella/cella-launch flags=(unconfined) {' \\\n"
                          "    '  userns,' \\\n"));
    EXPECT_THAT(check.fix, HasSubstr("sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"));
  }
}

TEST(JudgeTest, UbuntuWithAProfileIsOk) {
  Facts facts = Refusing(BasisStage::kMapIds, EPERM);
  facts.host.apparmor_restrict_userns = 1;
  facts.proof = Healthy().proof;
  Report report = Judge(facts);
  EXPECT_TRUE(report.sandbox);
  EXPECT_EQ(Named(report, "user_namespaces").status, CheckStatus::kOk);
  EXPECT_THAT(Named(report, "user_namespaces").detail, HasSubstr("allowed to cella-launch"));
  EXPECT_EQ(Named(report, "namespaces").status, CheckStatus::kOk);
  EXPECT_EQ(Named(report, "proc").status, CheckStatus::kOk);
}

TEST(JudgeTest, AppArmorIsNotBlamedForRoot) {
  Facts facts = Refusing(BasisStage::kUserNamespace, EPERM);
  facts.host.apparmor_restrict_userns = 1;
  facts.host.builder = Builder::kPrivileged;
  facts.host.uid = 0;
  EXPECT_THAT(JudgeUserNamespaces(facts).detail, Not(HasSubstr("AppArmor")));
}

TEST(JudgeTest, ProfileAllowsUserNamespacesAndNothingElse) {
  EXPECT_EQ(AppArmorProfile("/usr/libexec/cella/cella-launch"),
            "abi <abi/4.0>,\n"
            "include <tunables/global>\n"
            "profile cella-launch /usr/libexec/cella/cella-launch flags=(unconfined) {\n"
            "  userns,\n"
            "  include if exists <local/cella-launch>\n"
            "}\n");
}

TEST(JudgeTest, ProfileQuotesUnusualPaths) {
  EXPECT_THAT(AppArmorProfile("/home/a b/{x}/cella-launch"), HasSubstr("\"/home/a b/\\{x\\}/cella-launch\" flags"));
}

TEST(JudgeTest, RecognisesDebiansNamespaceSwitch) {
  Facts facts = Refusing(BasisStage::kUserNamespace, EPERM);
  facts.host.unprivileged_userns_clone = 0;
  Check check = JudgeUserNamespaces(facts);
  EXPECT_EQ(check.status, CheckStatus::kMissing);
  EXPECT_THAT(check.fix, HasSubstr("sysctl -w kernel.unprivileged_userns_clone=1"));
}

TEST(JudgeTest, RecognisesZeroAllowedNamespaces) {
  Facts facts = Refusing(BasisStage::kUserNamespace, ENOSPC);
  facts.host.max_user_namespaces = 0;
  Check check = JudgeUserNamespaces(facts);
  EXPECT_THAT(check.detail, HasSubstr("user.max_user_namespaces is 0"));
  EXPECT_THAT(check.fix, HasSubstr("sysctl -w user.max_user_namespaces="));
}

TEST(JudgeTest, ContainerGetsTheEnginesOptionEvenOnAnUbuntuHost) {
  Facts facts = Refusing(BasisStage::kUserNamespace, EPERM);
  facts.host.container = "docker";
  facts.host.seccomp_filtered = true;
  facts.host.apparmor_restrict_userns = 1;
  EXPECT_THAT(JudgeUserNamespaces(facts).fix, HasSubstr("--security-opt seccomp=unconfined"));
  facts.host.container = "podman";
  EXPECT_THAT(JudgeUserNamespaces(facts).fix, HasSubstr("podman run"));
  facts.host.container = "kubernetes";
  EXPECT_THAT(JudgeUserNamespaces(facts).fix, HasSubstr("seccompProfile: {type: Unconfined}"));
}

TEST(JudgeTest, UnfilteredContainerOnAnUbuntuHostGetsBothReasons) {
  Facts facts = Refusing(BasisStage::kMapIds, EPERM);
  facts.host.container = "docker";
  facts.host.apparmor_restrict_userns = 1;
  Check check = JudgeUserNamespaces(facts);
  EXPECT_THAT(check.fix, HasSubstr("profile cella-launch"));
  EXPECT_THAT(check.fix, HasSubstr("--security-opt apparmor=unconfined"));
}

TEST(JudgeTest, DistinguishesChrootFilterAndOldKernel) {
  Facts facts = Refusing(BasisStage::kUserNamespace, EPERM);
  EXPECT_THAT(JudgeUserNamespaces(facts).fix, HasSubstr("SELinux"));
  facts.host.seccomp_filtered = true;
  EXPECT_THAT(JudgeUserNamespaces(facts).detail, HasSubstr("seccomp filter"));
  facts.host.chrooted = true;
  EXPECT_THAT(JudgeUserNamespaces(facts).detail, HasSubstr("chroot"));
  EXPECT_THAT(JudgeUserNamespaces(Refusing(BasisStage::kUserNamespace, EINVAL)).fix, HasSubstr("CONFIG_USER_NS"));
}

TEST(JudgeTest, UntestedMechanismIsNotReportedAsMissing) {
  Report report = Judge(Refusing(BasisStage::kUserNamespace, EPERM));
  for (const char* name : {"namespaces", "proc", "overlayfs"}) {
    EXPECT_EQ(Named(report, name).status, CheckStatus::kInfo) << name;
  }
}

TEST(JudgeTest, MissingNamespaceNamesItsKernelOption) {
  Facts facts = Healthy();
  facts.proof.ok = false;
  facts.kernel.net = Failed(EINVAL);
  facts.kernel.together = Failed(EINVAL);
  Check check = JudgeNamespaces(facts);
  EXPECT_EQ(check.status, CheckStatus::kMissing);
  EXPECT_THAT(check.detail, HasSubstr("net (Invalid argument)"));
  EXPECT_THAT(check.fix, HasSubstr("CONFIG_NET_NS=y"));
}

TEST(JudgeTest, FilteredClone3IsAttributedToTheContainer) {
  Facts facts = Healthy();
  facts.proof.ok = false;
  facts.host.container = "docker";
  facts.kernel.together = Failed(ENOSYS);
  Check check = JudgeNamespaces(facts);
  EXPECT_EQ(check.status, CheckStatus::kMissing);
  EXPECT_THAT(check.fix, HasSubstr("--security-opt seccomp=unconfined"));
}

TEST(JudgeTest, MaskedProcDegradesAndNamesTheOption) {
  Facts facts = Healthy();
  facts.host.container = "docker";
  facts.kernel.proc = Failed(EPERM);
  facts.proof.isolation.proc = "none";
  Report report = Judge(facts);
  EXPECT_TRUE(report.sandbox);
  EXPECT_EQ(Named(report, "proc").status, CheckStatus::kDegraded);
  EXPECT_THAT(Named(report, "proc").fix, HasSubstr("systempaths=unconfined"));
}

TEST(JudgeTest, KernelBelowTheMinimumIsMissingOrDegraded) {
  HostFacts host;
  host.kernel_release = "4.18.0-553.el8";
  EXPECT_EQ(JudgeKernel(host).status, CheckStatus::kMissing);
  host.kernel_release = "5.13.0";
  EXPECT_EQ(JudgeKernel(host).status, CheckStatus::kDegraded);
  host.kernel_release = "5.14.0-427.el9";
  EXPECT_EQ(JudgeKernel(host).status, CheckStatus::kOk);
  host.kernel_release = "strange";
  EXPECT_EQ(JudgeKernel(host).status, CheckStatus::kInfo);
}

TEST(JudgeTest, OtherArchitecturesAreRefused) {
  HostFacts host;
  for (const char* machine : {"x86_64", "aarch64"}) {
    host.machine = machine;
    EXPECT_EQ(JudgeArchitecture(host).status, CheckStatus::kOk);
  }
  host.machine = "riscv64";
  EXPECT_EQ(JudgeArchitecture(host).status, CheckStatus::kMissing);
}

TEST(JudgeTest, LandlockOffAtBootGetsTheCompleteLsmParameter) {
  HostFacts host;
  host.landlock_error = EOPNOTSUPP;
  host.lsm = "lockdown,capability,yama,apparmor";
  Check check = JudgeLandlock(host);
  EXPECT_EQ(check.status, CheckStatus::kDegraded);
  EXPECT_THAT(check.fix, HasSubstr("  lsm=landlock,lockdown,capability,yama,apparmor"));
  host.landlock_error = ENOSYS;
  EXPECT_THAT(JudgeLandlock(host).detail, HasSubstr("not in this kernel"));
  host.seccomp_filtered = true;
  EXPECT_THAT(JudgeLandlock(host).detail, HasSubstr("seccomp filter"));
}

TEST(JudgeTest, WithoutCgroupsOtherMechanismsAreReported) {
  Facts facts = Healthy();
  facts.cgroup = {.reason = "start it in a delegated scope: systemd-run --user --scope -p Delegate=yes cella …"};
  Report report = Judge(facts);
  EXPECT_TRUE(report.sandbox);
  const Check& check = Named(report, "cgroups");
  EXPECT_EQ(check.status, CheckStatus::kDegraded);
  EXPECT_THAT(check.detail, HasSubstr("--cpus is refused"));
  EXPECT_THAT(check.fix, HasSubstr("systemd-run --user --scope"));
}

TEST(JudgeTest, MissingCpuControllerGetsASystemdFix) {
  Facts facts = Healthy();
  facts.cgroup.cpu = false;
  facts.cgroup.reason = "The kernel offers no cgroup controller for cpu here; mount or enable it.";
  Check check = JudgeCgroups(facts);
  EXPECT_EQ(check.status, CheckStatus::kDegraded);
  EXPECT_THAT(check.detail, HasSubstr("lacking: processor share"));
  EXPECT_THAT(check.fix, HasSubstr("user@.service.d/delegate.conf"));
}

TEST(JudgeTest, SwapIsReportedOnlyIfPresentAndNotCounted) {
  Facts facts = Healthy();
  EXPECT_EQ(JudgeSwap(facts).status, CheckStatus::kOk);
  facts.host.swap_bytes = uint64_t{1} << 30;
  facts.cgroup.swap_accounted = true;
  EXPECT_EQ(JudgeSwap(facts).status, CheckStatus::kOk);
  facts.cgroup.swap_accounted = false;
  EXPECT_EQ(JudgeSwap(facts).status, CheckStatus::kDegraded);
  EXPECT_THAT(JudgeSwap(facts).fix, HasSubstr("swapaccount=1"));
}

TEST(JudgeTest, IdmappedMountsConcernRootOnly) {
  Facts facts = Healthy();
  EXPECT_EQ(JudgeIdmap(facts).status, CheckStatus::kInfo);
  facts.host.builder = Builder::kPrivileged;
  facts.kernel.idmap = Failed(EINVAL);
  EXPECT_EQ(JudgeIdmap(facts).status, CheckStatus::kDegraded);
  facts.kernel.idmap = kWorked;
  EXPECT_EQ(JudgeIdmap(facts).status, CheckStatus::kOk);
}

TEST(JudgeTest, AnsweringEngineIsPreferredToARefusingOne) {
  std::vector<EngineAddress> addresses = {{.engine = "docker", .address = "/var/run/docker.sock", .error = EACCES},
                                          {.engine = "podman", .address = "/run/podman/podman.sock", .error = ENOENT}};
  Check docker = JudgeEngine("docker", addresses);
  EXPECT_EQ(docker.status, CheckStatus::kInfo);
  EXPECT_THAT(docker.fix, HasSubstr("usermod -aG docker"));
  EXPECT_EQ(JudgeEngine("podman", addresses).detail, "not found");
  addresses.push_back({.engine = "docker", .address = "/run/user/1000/docker.sock"});
  EXPECT_EQ(JudgeEngine("docker", addresses).status, CheckStatus::kOk);
  EXPECT_EQ(JudgeEngine("docker", addresses).detail, "/run/user/1000/docker.sock");
}

TEST(JudgeTest, MissingLanguageIsInfo) {
  Facts facts = Healthy();
  facts.languages = {{.name = "ruby", .install = "install it with: sudo apt install ruby"},
                     {.name = "go", .program = "/usr/bin/go", .version = "1.22.1"}};
  Report report = Judge(facts);
  EXPECT_TRUE(report.sandbox);
  EXPECT_EQ(Named(report, "language:ruby").status, CheckStatus::kInfo);
  EXPECT_EQ(Named(report, "language:ruby").fix, "install it with: sudo apt install ruby");
  EXPECT_EQ(Named(report, "language:go").detail, "1.22.1 (/usr/bin/go)");
}

TEST(JudgeTest, WithoutAProofTheMechanismsDecide) {
  Facts facts = Healthy();
  facts.proof = {};
  EXPECT_TRUE(Judge(facts).sandbox);
  facts.kernel.seccomp = Failed(EINVAL);
  EXPECT_FALSE(Judge(facts).sandbox);
}

TEST(JudgeTest, BrokenInstallationCannotRun) {
  Facts facts = Healthy();
  facts.proof = {};
  facts.launcher.clear();
  facts.installation_error = "'cella-launch' is missing: the installation is incomplete";
  Report report = Judge(facts);
  EXPECT_FALSE(report.sandbox);
  EXPECT_EQ(Named(report, "installation").status, CheckStatus::kMissing);
}

TEST(ProofTest, ReadsAResult) {
  ProofFacts proof = ReadProof(
      R"({"status":"ok","exit_code":0,"stdout":"ok\n","error":null,"isolation":{"executor":"sandbox",)"
      R"("namespaces":["user","pid"],"seccomp":true,"landlock":7,"cgroup":"v1","network":"none","proc":"own",)"
      R"("limits":{"memory":{"value":1,"by":"cgroup"}}}})");
  EXPECT_TRUE(proof.ok);
  EXPECT_EQ(proof.isolation.namespaces.size(), 2u);
  EXPECT_EQ(proof.isolation.landlock, 7);
  EXPECT_EQ(proof.isolation.limits["memory"].by, "cgroup");
  EXPECT_THAT(JudgeRun(proof).detail, HasSubstr("landlock 7, cgroup v1, network none, /proc own, memory by cgroup"));
}

TEST(ProofTest, KeepsTheMessageOfARefusal) {
  ProofFacts proof = ReadProof(
      R"({"status":"rejected","stdout":"","isolation":null,"error":{"name":"Rejected","message":"no namespaces"}})");
  EXPECT_TRUE(proof.tried);
  EXPECT_FALSE(proof.ok);
  EXPECT_EQ(proof.message, "no namespaces");
}

TEST(ProofTest, RejectsMalformedOutput) {
  for (const char* text : {"", "[]", "{", "{}", R"({"status":7,"isolation":[]})"}) {
    ProofFacts proof = ReadProof(text);
    EXPECT_TRUE(proof.tried && !proof.ok) << text;
    EXPECT_THAT(proof.message, Not(IsEmpty())) << text;
  }
}

TEST(VersionInTest, FindsTheFirstDottedNumber) {
  EXPECT_EQ(VersionIn("go version go1.22.1 linux/amd64"), "1.22.1");
  EXPECT_EQ(VersionIn("This is perl 5, version 36, subversion 0 (v5.36.0) built for"), "5.36.0");
  EXPECT_EQ(VersionIn("v18.19.0\n"), "18.19.0");
  EXPECT_EQ(VersionIn("openjdk 17.0.9 2023-10-17"), "17.0.9");
  EXPECT_EQ(VersionIn("Version 3."), "");
  EXPECT_EQ(VersionIn(""), "");
}

}  // namespace
}  // namespace cella::doctor
