"""Packs an installed tree as a wheel: wheel.py TREE FOLDER VERSION ARCHITECTURE GLIBC.

pip puts what lies in a wheel's `data` folder into the environment itself, so that Weft's prefix is the
environment. Wheels have no links: a library's development name becomes a linker script, other links
become copies.
"""

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile

tree, folder, version, architecture, glibc = sys.argv[1:]
data = f"weft-{version}.data/data"
info = f"weft-{version}.dist-info"
summary = "MPI library in Rust with the ABI of MPICH and the standard ABI of MPI-5.0"
metadata = f"""Metadata-Version: 2.1
Name: weft
Version: {version}
Summary: {summary}
License: MIT OR Apache-2.0
Requires-Python: >=3.6
"""


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def stripped(path, room):
    """Without what only debuggers read. The names of functions stay: reports of hangs look for them."""
    copy = os.path.join(room, os.path.basename(path))
    shutil.copy(path, copy)
    subprocess.run(["strip", "--strip-debug", copy], check=True)
    return copy


def contents(room):
    """What goes into the wheel: name, bytes, whether it can be run."""
    found = []
    for place, folders, files in os.walk(tree):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(place, name)
            short = os.path.relpath(path, tree)
            # Modules are for one compiler; mpifort makes those that are needed.
            if short.startswith("include/weft/"):
                continue
            if os.path.islink(path) and short.startswith("lib/"):
                target = os.path.basename(os.path.realpath(path))
                if name.endswith(".so"):
                    found.append((f"{data}/{short}", f"INPUT({target})\n".encode(), False))
                continue
            run = os.access(path, os.X_OK)
            real = os.path.realpath(path)
            if is_elf(real):
                real = stripped(real, room)
            with open(real, "rb") as file:
                found.append((f"{data}/{short}", file.read(), run))
    return found


with tempfile.TemporaryDirectory() as room:
    files = contents(room)
tag = f"py3-none-manylinux_{glibc.replace('.', '_')}_{architecture}"
wheel = f"Wheel-Version: 1.0\nGenerator: xtask\nRoot-Is-Purelib: false\nTag: {tag}\n"
files.append((f"{info}/METADATA", metadata.encode(), False))
files.append((f"{info}/WHEEL", wheel.encode(), False))

record = ""
for name, content, _ in files:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    record += f"{name},sha256={digest},{len(content)}\n"
record += f"{info}/RECORD,,\n"
files.append((f"{info}/RECORD", record.encode(), False))

path = os.path.join(folder, f"weft-{version}-{tag}.whl")
with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, content, run in files:
        entry = zipfile.ZipInfo(name)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100755 if run else 0o100644) << 16
        archive.writestr(entry, content)
print(path)
