"""tools/fetch_model.py without a network: a stand-in for pip hands out wheels made here."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools" / "fetch_model.py"

# Acts as `python -m pip`: answers --version, and copies the wheel named in the requirement file. A file `broken` in the
# folder makes the download fail, `slow` makes it hang; each download is noted in `log`.
STAND_IN = """
import pathlib, shutil, sys, time
folder = pathlib.Path({folder!r})
if "--version" in sys.argv:
    sys.exit(0)
name = pathlib.Path(sys.argv[sys.argv.index("--requirement") + 1]).read_text().split("==")[0]
with open(folder / "log", "a") as log:
    log.write(name + "\\n")
if (folder / "broken").exists() and name in (folder / "broken").read_text():
    print("ERROR: no matching distribution")
    sys.exit(1)
if (folder / "slow").exists() and name in (folder / "slow").read_text():
    time.sleep(60)
target = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
target.mkdir(exist_ok=True)
shutil.copy(folder / (name + ".whl"), target)
"""


class FetchModelTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        self.cache = self.folder / "cache"
        contents = [os.urandom(5000), os.urandom(7001), os.urandom(1)]
        self.model = b"".join(contents)
        parts = []
        for index, data in enumerate(contents):
            wheel = self.folder / f"p{index}.whl"
            with zipfile.ZipFile(wheel, "w") as archive:
                archive.writestr(f"data/part{index}", data)
            parts.append({"package": f"p{index}", "version": "1", "wheel_bytes": wheel.stat().st_size,
                          "wheel_sha256": "0", "member": f"data/part{index}", "bytes": len(data),
                          "sha256": hashlib.sha256(data).hexdigest()})
        self.manifest = {"file": "m.gguf", "bytes": len(self.model), "parts": parts,
                         "sha256": hashlib.sha256(self.model).hexdigest()}
        # The tool as it is, beside a manifest of its own and with the stand-in for pip.
        (self.folder / "fetch_model.py").write_text(TOOL.read_text())
        (self.folder / "pip.py").write_text(STAND_IN.format(folder=str(self.folder)))
        self.write_manifest()

    def tearDown(self):
        self.scratch.cleanup()

    def write_manifest(self):
        (self.folder / "demo_model.json").write_text(json.dumps(self.manifest))

    def command(self, *arguments):
        # `-m pip` finds pip.py in this folder first.
        return [sys.executable, str(self.folder / "fetch_model.py"), "--cache-dir", str(self.cache), *arguments]

    def run_tool(self, *arguments):
        environment = dict(os.environ, PYTHONPATH=str(self.folder))
        return subprocess.run(self.command(*arguments), env=environment, capture_output=True, text=True, check=False)

    def downloads(self):
        log = self.folder / "log"
        return log.read_text().split() if log.exists() else []

    def assert_model_is_there(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        path = pathlib.Path(result.stdout.splitlines()[-1])
        self.assertEqual(path, self.cache / "m.gguf")
        self.assertEqual(path.read_bytes(), self.model)
        self.assertEqual(sorted(os.listdir(self.cache)), [".lock", "m.gguf"])

    def assert_one_clear_line(self, result, code, *words):
        self.assertEqual(result.returncode, code)
        self.assertEqual(result.stdout, "")
        last = result.stderr.strip().splitlines()[-1]
        self.assertTrue(last.startswith("fetch_model.py: "), result.stderr)
        self.assertNotIn("Traceback", result.stderr)
        for word in words:
            self.assertIn(word, last)

    def test_downloads_joins_and_keeps(self):
        self.assert_model_is_there(self.run_tool())
        self.assertEqual(self.downloads(), ["p0", "p1", "p2"])
        self.assert_model_is_there(self.run_tool("--quiet"))
        self.assertEqual(self.downloads(), ["p0", "p1", "p2"])

    def test_resumes_after_a_failed_part(self):
        (self.folder / "broken").write_text("p1")
        self.assert_one_clear_line(self.run_tool(), 1, "p1", "no matching distribution")
        (self.folder / "broken").unlink()
        self.assert_model_is_there(self.run_tool())
        self.assertEqual(self.downloads(), ["p0", "p1", "p1", "p2"])

    def test_a_damaged_part_is_fetched_again(self):
        (self.folder / "broken").write_text("p2")
        self.run_tool()
        (self.folder / "broken").unlink()
        part = self.cache / "m.gguf.parts" / "part0"
        part.write_bytes(b"x" + part.read_bytes()[1:])
        self.assert_model_is_there(self.run_tool())
        self.assertEqual(self.downloads(), ["p0", "p1", "p2", "p0", "p2"])

    def test_a_damaged_model_is_replaced(self):
        self.run_tool()
        (self.cache / "m.gguf").write_bytes(b"\0" * len(self.model))
        self.assert_one_clear_line(self.run_tool("--check"), 1, "m.gguf")
        self.assert_model_is_there(self.run_tool())
        self.assertEqual(self.run_tool("--check").returncode, 0)

    def test_wrong_content_is_refused(self):
        self.manifest["parts"][1]["sha256"] = "0" * 64
        self.write_manifest()
        self.assert_one_clear_line(self.run_tool(), 1, "sha256", "part1")
        self.assertFalse((self.cache / "m.gguf").exists())

    def test_wrong_whole_is_refused(self):
        self.manifest["sha256"] = "0" * 64
        self.write_manifest()
        self.assert_one_clear_line(self.run_tool(), 1, "sha256", "m.gguf")
        self.assertFalse((self.cache / "m.gguf").exists())

    def test_interrupted_run_ends_cleanly(self):
        (self.folder / "slow").write_text("p1")
        environment = dict(os.environ, PYTHONPATH=str(self.folder))
        process = subprocess.Popen(self.command(), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        while "p1" not in self.downloads():
            self.assertIsNone(process.poll())
        process.terminate()
        out, errors = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(out, "")
        self.assertIn("run again to resume", errors.splitlines()[-1])
        self.assertEqual(os.listdir(self.cache / "m.gguf.parts"), ["part0"])
        (self.folder / "slow").unlink()
        self.assert_model_is_there(self.run_tool())

    def test_wrong_usage(self):
        self.assertEqual(self.run_tool("--unknown").returncode, 2)

    def test_unusable_cache_folder(self):
        self.cache.write_text("a file")
        self.assert_one_clear_line(self.run_tool(), 1)


if __name__ == "__main__":
    unittest.main()
