"""Creates a BPF map."""
from attack import *

BPF_MAP_CREATE, BPF_MAP_TYPE_ARRAY = 0, 2
attributes = (ctypes.c_uint32 * 32)(BPF_MAP_TYPE_ARRAY, 4, 8, 1, 0)
attempt(lambda: syscall("bpf", BPF_MAP_CREATE, attributes, ctypes.sizeof(attributes)))
