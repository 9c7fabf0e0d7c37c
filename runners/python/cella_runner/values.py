"""Values of a run that its code finds as variables. Large ones are in files, which are removed as they are read."""

import os


def assign(namespace, values):
    for value in values:
        kind = value["kind"]
        if "file" in value:
            data = _take(value["file"])
            if kind != "bytes":
                data = data.decode("utf-8")
        else:
            data = value["data"]
        if kind == "json":
            import json

            data = json.loads(data)
        namespace[value["name"]] = data


def _take(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.unlink(path)
        size = os.fstat(fd).st_size
        data = os.read(fd, size)
        if len(data) == size:
            return data
        parts = [data]
        while parts[-1]:  # one call reads 2 GiB at most
            parts.append(os.read(fd, 1 << 30))
        return b"".join(parts)
    finally:
        os.close(fd)
