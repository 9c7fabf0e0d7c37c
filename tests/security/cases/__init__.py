"""All attacks, one table per subject."""

from cases import files, kernel, mounts, network, privileges, processes, surroundings

ALL = [case for table in (mounts, processes, files, network, kernel, privileges, surroundings) for case in table.CASES]
