"""Calls the kernel by another ABI, with other numbers than the filter's (argument: int80 or x32)."""
from attack import *
import mmap

# mov eax, 20 (getpid of i386); int 0x80; ret   and   mov eax, 0x40000027 (getpid of x32); syscall; ret
CODE = {"int80": b"\xb8\x14\x00\x00\x00\xcd\x80\xc3", "x32": b"\xb8\x27\x00\x00\x40\x0f\x05\xc3"}[sys.argv[1]]
page = mmap.mmap(-1, mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(CODE)
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
answer = ctypes.CFUNCTYPE(ctypes.c_int)(address)()
if answer == os.getpid():
    result("ok")
result("unbuilt" if -answer == errno.ENOSYS else errno.errorcode.get(-answer, str(answer)))
