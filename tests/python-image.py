#!/usr/bin/python3
"""Write the image that examples/python.yaml describes, as `orders-python:1`.

    tests/python-image.py BASE IMAGE

BASE is an archive with a Flink image, as `kubectl flink sandbox flink-image` builds it from packages. IMAGE gets the same archive
with one more layer: Debian's Python, `apache-flink` from PyPI, and examples/orders.py. Needs root on Debian, and a compiler,
Python's headers and venv (`tests/tools.sh pyflink`): some dependencies of apache-flink are only available as source code.
"""

import hashlib
import importlib.metadata
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

NAME = "orders-python:1"
# Dependencies of Python that an image with Java may not have.
LIBRARIES = r"(lib)?python3|media-types$|lib(bz2|db5|expat|ffi|lzma|ncursesw|nsl2|readline|sqlite3|tirpc|uuid)"


def run(*words, **options):
    subprocess.run([str(word) for word in words], check=True, stdout=sys.stderr, **options)


def add_python(root, work):
    """Debian's Python without the scripts of its packages."""
    kinds = ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")
    listed = subprocess.run(
        ["apt-cache", "depends", "--recurse", *(f"--no-{kind}" for kind in kinds), "python3"],
        check=True, capture_output=True, text=True).stdout
    packages = sorted({name for name in listed.splitlines() if re.match(LIBRARIES, name)})
    work.mkdir()
    work.chmod(0o777)
    run("apt-get", "download", *packages, cwd=work)
    for package in sorted(work.iterdir()):
        run("dpkg-deb", "--extract", package, root)
    # In the image this is a link to the other folder, and a real folder would replace it.
    shutil.copytree(root / "lib", root / "usr/lib", symlinks=True, dirs_exist_ok=True)
    shutil.rmtree(root / "lib")


def add_flink(root, version, work):
    """`apache-flink` without the Flink that comes with it: the image has one."""
    site = root / "opt/pyflink"
    run("/usr/bin/python3", "-m", "venv", work)
    install = (work / "bin/pip", "--quiet", "install", "--no-compile", "--target", site)
    run(*install, "--no-deps", f"apache-flink=={version}.*")
    found = next(importlib.metadata.distributions(name="apache-flink", path=[str(site)]))
    needs = [need for need in found.requires if not need.startswith("apache-flink-libraries")]
    run(*install, *needs)


def main(base, image):
    with tempfile.TemporaryDirectory() as folder, tarfile.open(base) as source, tarfile.open(image, "w") as target:
        folder = Path(folder)
        manifest = json.load(source.extractfile("manifest.json"))
        config = json.load(source.extractfile(manifest[0]["Config"]))
        root = folder / "root"
        usrlib = root / "opt/flink/usrlib"
        usrlib.mkdir(parents=True)
        add_python(root, folder / "packages")
        add_flink(root, "1.20", folder / "venv")
        version = next(importlib.metadata.distributions(name="apache-flink", path=[str(root / "opt/pyflink")])).version
        (usrlib / "flink-python.jar").symlink_to(f"/opt/flink/opt/flink-python-{version}.jar")
        shutil.copy(Path(__file__).parent.parent / "examples/orders.py", usrlib)

        layer = folder / "layer.tar"
        run("tar", "--numeric-owner", "--owner=0", "--group=0", "--sort=name", "-C", root, "-cf", layer, ".")
        with layer.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        config["rootfs"]["diff_ids"].append(f"sha256:{digest}")
        config["config"]["Env"].append("PYTHONPATH=/opt/pyflink")
        for name in manifest[0]["Layers"]:
            target.addfile(source.getmember(name), source.extractfile(name))
        target.add(layer, f"{digest}.tar")
        manifest[0]["Layers"].append(f"{digest}.tar")
        manifest[0]["RepoTags"] = [NAME]
        for name, content in ((manifest[0]["Config"], config), ("manifest.json", manifest)):
            data = json.dumps(content).encode()
            info = tarfile.TarInfo(name)
            info.size = len(data)
            target.addfile(info, io.BytesIO(data))


main(*sys.argv[1:])
