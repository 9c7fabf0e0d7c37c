"""Wants core dumps: the host's core handler would run on a crash of the guest."""
from attack import *
import resource

hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
# One byte is the kernel's own mark for "none, not even through a pipe".
result("ok" if hard == resource.RLIM_INFINITY or hard > 1 else "limited")
