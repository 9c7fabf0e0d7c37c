"""One attack as data: a guest, what it must see in the jail, and the surroundings in which it succeeds outside."""

from dataclasses import dataclass

# The layers that may answer. A case names the one that is expected to.
FILTER = "seccomp filter"
NAMESPACE = "namespaces"
TREE = "the minimal read-only tree"
CREDENTIALS = "no capabilities, no_new_privs, an unprivileged host uid"
INIT = "the undumpable init"
LIMITS = "resource limits"
LAUNCH = "what the launcher passes on"

# Why an ordinary user cannot succeed outside, not even as root of namespaces of its own.
NEEDS_HOST_ROOT = "the kernel asks for the capability in the initial user namespace"
ROOTS_FILE = "the file belongs to the host's root"
ROOT_MAPS_IT = "only root can have host uid 0 behind an id, or make a program that belongs to it"


@dataclass(frozen=True)
class Case:
    name: str
    attack: str
    guest: str
    expect: tuple
    layer: str
    args: tuple = ()
    # What the control gets instead of args, where target or path differ outside.
    control_args: tuple | None = None
    # Namespaces of the host that the control keeps, because the victim lives there.
    share: tuple = ()
    # Methods of support.victims.Scene.
    victims: tuple = ()
    # The kernel may be built without what is attacked. The guest can tell that from a refusal, says `unbuilt`,
    # and the control accepts it; in the jail `unbuilt` would mean that the call got through, and is a failure.
    may_be_unbuilt: bool = False
    # The reason why only root's run has a control. The jailed half runs for every user.
    root_only: str = ""
    # Without root not even the victim can be made, or what the guest sees means nothing: root's run only.
    root_victim: bool = False
    # Only on this machine type ("" for all).
    machine: str = ""
    # More keys for support/control.py.
    control: tuple = ()

    def __post_init__(self):
        if dict(self.control).get("thaw") and {"user", "mnt"} & set(self.share):
            raise ValueError(f"{self.name}: a control that writes must have mounts of its own")
