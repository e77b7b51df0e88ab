"""benchmarks/peers/compare.py on a small made-up result."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PEERS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "peers"
ADD = {"op": "add", "shape": "8x8", "dtype": "f16", "peer": "triton"}
PRODUCT = {"op": "gemm", "shape": "8192x8192x8192", "dtype": "bf16", "peer": "torch (cuBLAS)"}
ATTENTION = {"op": "attention_full", "shape": "1x8x1x1x8", "dtype": "bf16", "peer": "cuDNN (SDPA)"}


def figure(work, us, **more):
    """A peer's row: 1 GB and 1 TFLOP of work."""
    row = {key: work[key] for key in ("op", "shape", "dtype")}
    return {**row, "phase": "", "column": "peer", "implementation": work["peer"], "status": "ok", "us": {"median": us}, "bytes": 1e9, "flops": 1e12,
            "method": "graph of 50, cold", **more}


class CompareTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.earlier = json.loads((PEERS / "earlier.json").read_text())
        self.earlier.update(copy_gbs=4000, cublas_tflops=700)

    def compare(self, then, now, *arguments, ceilings=None, environment=None):
        """Exit code, and the lines with their verdicts."""
        self.earlier["rows"] = then
        (self.folder / "earlier.json").write_text(json.dumps(self.earlier))
        result = {"environment": environment or {}, "ceilings": ceilings or {"copy_gbs": 4000, "empty_node_us": 0.5}, "rows": now}
        (self.folder / "result.json").write_text(json.dumps(result))
        done = subprocess.run([sys.executable, PEERS / "compare.py", self.folder / "result.json", "--earlier", self.folder / "earlier.json", "--json",
                               self.folder / "out.json", *arguments], capture_output=True, text=True)
        self.text = done.stdout + done.stderr
        lines = json.loads((self.folder / "out.json").read_text())["rows"] if done.returncode < 2 else []
        return done.returncode, lines

    def test_small_differences_are_within(self):
        # 3,200 of 4,000 GB/s then; 1 GB in 300 us are 3,333.
        code, lines = self.compare([{**ADD, "gbs": 3200}], [figure(ADD, 300)])
        self.assertEqual((code, lines[0]["verdict"]), (0, "within"))
        self.assertAlmostEqual(lines[0]["ratio_then"], 0.8)
        self.assertAlmostEqual(lines[0]["difference"], 0.0417, 3)

    def test_eight_percent_without_a_reason_fails(self):
        for us in (312.5 / 1.08, 312.5 * 1.08):
            code, lines = self.compare([{**ADD, "gbs": 3200}], [figure(ADD, us)])
            self.assertEqual((code, lines[0]["verdict"], lines[0]["why"]), (1, "not explained", ""))
        self.assertIn("| not explained |", self.text)

    def test_ratios_are_of_each_run_s_own_ceiling(self):
        # Everything is 10 % faster, the copy too.
        code, lines = self.compare([{**ADD, "gbs": 3200}], [figure(ADD, 312.5 / 1.1)], ceilings={"copy_gbs": 4400, "empty_node_us": 0.5})
        self.assertEqual((code, lines[0]["verdict"]), (0, "within"))
        then, now = [{**PRODUCT, "tflops": 700}, {**ATTENTION, "tflops": 600}], [figure(PRODUCT, 1e6 / 800), figure(ATTENTION, 1e6 / 690)]
        code, lines = self.compare(then, now)
        self.assertEqual((code, [line["verdict"] for line in lines]), (0, ["within"]))
        self.assertEqual(lines[0]["relative_to"], "cuBLAS")
        self.assertAlmostEqual(lines[0]["ratio_now"], 690 / 800)

    def test_what_lies_between_two_events_is_taken_off(self):
        self.assertEqual(self.compare([{**ADD, "us": 12.4}], [figure(ADD, 10)])[0], 0)
        code, lines = self.compare([{**ADD, "us": 22.4}], [figure(ADD, 10)])
        self.assertEqual((code, lines[0]["verdict"]), (1, "not explained"))
        # A graph of one call has a gap of its own.
        self.assertEqual(self.compare([{**ADD, "us": 12.4}], [figure(ADD, 10, method="graph of 1, cold")])[0], 1)

    def test_zeros_written_back_are_bounded(self):
        # 50 MB at 4 TB/s are 12.5 us.
        for us, code in ((30, 0), (45, 1)):
            self.assertEqual(self.compare([{**ADD, "us": us, "because": ["flush"]}], [figure(ADD, 20)])[0], code)
        self.assertEqual(self.compare([{**ADD, "us": 30}], [figure(ADD, 20)])[0], 1)

    def test_the_host_must_have_been_slow(self):
        then = {**ADD, "us": 100, "because": ["host"]}
        self.assertEqual(self.compare([{**then, "host_us": 110}], [figure(ADD, 4)])[0], 0)
        self.assertEqual(self.compare([{**then, "host_us": 30}], [figure(ADD, 4)])[0], 1)
        self.assertEqual(self.compare([then], [figure(ADD, 4, host_call_us={"median": 120})])[0], 0)

    def test_the_earlier_method_now_decides(self):
        then = {**ADD, "us": 30, "because": ["flush"]}
        code, lines = self.compare([then], [figure(ADD, 20, launched_us=31)])
        self.assertEqual((code, lines[0]["verdict"]), (0, "explained"))
        self.assertTrue(lines[0]["why"].startswith("method: "))
        self.assertEqual(self.compare([then], [figure(ADD, 20, launched_us=22)])[0], 1)

    def test_two_event_timings_are_resolved_half_as_well(self):
        for launched, code in ((9.1, 0), (8.8, 1)):
            self.assertEqual(self.compare([{**ADD, "us": 10}], [figure(ADD, 7, launched_us=launched)])[0], code)

    def test_events_may_hold_the_host_s_time(self):
        now = figure(ADD, 4, launched_us=18, host_call_us={"median": 40})
        code, lines = self.compare([{**ADD, "us": 10}], [now])
        self.assertEqual((code, lines[0]["why"].split(":")[0]), (0, "host"))
        self.assertEqual(self.compare([{**ADD, "us": 10}], [{**now, "host_call_us": {"median": 10}}])[0], 1)
        self.assertEqual(self.compare([{**ADD, "us": 10}], [{**now, "launched_us": 7}])[0], 1)

    def test_a_busy_chip_brackets_the_earlier_figure(self):
        then = [{**PRODUCT, "tflops": 700}, {**ATTENTION, "tflops": 500}]
        for warm, code in ((1e6 / 520, 0), (1e6 / 560, 1)):
            now = [figure(PRODUCT, 1e6 / 700, launched_us=1e6 / 700), figure(ATTENTION, 1e6 / 600, launched_us=1e6 / 600, launched_warm_us=warm)]
            code_now, lines = self.compare(then, now)
            self.assertEqual((code_now, lines[0]["why"].startswith("regime")), (code, code == 0))

    def test_another_machine_then_is_where_it_is_now(self):
        for there, code in ((600, 0), (540, 1)):
            then = [{**PRODUCT, "tflops": 700}, {**ATTENTION, "tflops": 500, "elsewhere": {"tflops": there, "cublas_tflops": 700}}]
            self.assertEqual(self.compare(then, [figure(PRODUCT, 1e6 / 700), figure(ATTENTION, 1e6 / 610)])[0], code)

    def test_another_version_is_named(self):
        self.earlier["peer_versions"] = {ADD["peer"]: "1"}
        for version, code in (("2", 0), ("1", 1)):
            self.assertEqual(self.compare([{**ADD, "us": 20}], [figure(ADD, 10)], environment={"peers": {ADD["peer"]: version}})[0], code)

    def test_another_run_shows_the_spread(self):
        for other, code in ((312.5, 0), (400, 1)):
            also = {"environment": {}, "ceilings": {"copy_gbs": 4000, "empty_node_us": 0.5}, "rows": [figure(ADD, other)]}
            (self.folder / "also.json").write_text(json.dumps(also))
            self.assertEqual(self.compare([{**ADD, "gbs": 3200}], [figure(ADD, 350)], "--also", str(self.folder / "also.json"))[0], code)

    def test_absent_and_failed_peers_are_named(self):
        then, failed = [{**ADD, "gbs": 3200}, {**ATTENTION, "tflops": 600}], figure(ADD, 0, status="failed", note="no such kernel")
        code, lines = self.compare(then, [failed])
        self.assertEqual((code, [line["verdict"] for line in lines]), (0, ["not measured"] * 2))
        self.assertEqual(lines[0]["why"], "no such kernel")
        self.assertEqual(self.compare(then, [failed], "--all")[0], 1)

    def test_what_is_not_a_result_is_refused(self):
        self.assertEqual(self.compare([{**ADD, "gbs": 1}], [], ceilings={"none": 0})[0], 2)
        self.assertEqual(subprocess.run([sys.executable, PEERS / "compare.py", self.folder / "absent.json"], capture_output=True).returncode, 2)

    def test_the_data_is_whole(self):
        seen = set()
        for row in json.loads((PEERS / "earlier.json").read_text())["rows"]:
            self.assertEqual(sum(kind in row for kind in ("us", "gbs", "tflops")), 1, row)
            self.assertNotIn((row["op"], row["shape"], row["dtype"], row["peer"]), seen)
            seen.add((row["op"], row["shape"], row["dtype"], row["peer"]))
            self.assertLessEqual(set(row.get("because", [])), set(self.earlier["explanations"]))


if __name__ == "__main__":
    unittest.main()
