"""Checks that every program and library in a wheel runs with a glibc as old as the floor, and needs nothing else.

    check_floor.py --floor 2.34 WHEEL          (needs pyelftools, which auditwheel brings)

auditwheel knows the floor too, but it takes libraries for granted that a small machine lacks (libz, say), and copies
others into the wheel without a word.
"""

import argparse
import io
import re
import sys
import zipfile

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection

GLIBC = re.compile(r"lib(c|m|dl|rt|pthread|resolv|util)\.so\.\d+|ld-linux-[\w-]+\.so\.\d+")


def version_of(text):
    return tuple(map(int, text.split(".")))


def complaints_about(elf, floor):
    """What one file needs and a machine at the floor may lack. A static program needs nothing."""
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            for tag in section.iter_tags("DT_NEEDED"):
                if not GLIBC.fullmatch(tag.needed):
                    yield f"needs {tag.needed}, which is not of glibc: link it statically"
        if isinstance(section, GNUVerNeedSection):
            for library, versions in section.iter_versions():
                for version in versions:
                    number = re.fullmatch(r"GLIBC_([\d.]+)", version.name)
                    if number is None or version_of(number[1]) > floor:
                        yield (
                            f"needs {version.name} of {library.name}: call the kernel with syscall(), or build where "
                            f"glibc is older (`objdump -T` tells which function it is)"
                        )


def check(wheel, floor):
    """(how many were looked at, complaints)."""
    seen, complaints = 0, []
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if content[:4] != b"\x7fELF":
                continue
            seen += 1
            elf = ELFFile(io.BytesIO(content))
            # Without sections, nothing below would be found, and nothing complained about.
            if elf.num_sections() == 0:
                complaints.append(f"{name} has no section table: do not strip that")
            complaints += [f"{name} {words}" for words in complaints_about(elf, floor)]
    return seen, complaints


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--floor", type=version_of, required=True, metavar="VERSION", help="of glibc")
    parser.add_argument("wheel")
    options = parser.parse_args()
    seen, complaints = check(options.wheel, options.floor)
    if not seen:
        complaints.append("there is no program in it: it is the pure package")
    for words in complaints:
        print(f"check_floor: {words}", file=sys.stderr)
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
