#!/usr/bin/env python3
"""Peers against earlier figures of the same peers: does this harness measure what it says?

    python3 benchmarks/peers/compare.py docs/results/h200-2026-11-30.json --md docs/results/h200-peers-2026-11-30.md

What is compared are ratios within each run, since clocks and power differ between machines: of memory-bound work to the copy
bandwidth, of products and attention to cuBLAS at 8192^3. A row is

    within         the ratios differ by no more than the tolerance (7 %),
    explained      they differ by more, and what the two methods are known to do differently accounts for it, by arithmetic that
                   is printed beside the row,
    not explained  they differ by more, and nothing accounts for it,
    not measured   the later run has no figure for this peer.

The earlier figures, how they were taken and the explanations are data: earlier.json. Where the later run also timed a peer by
the earlier method (run.py --earlier), that figure decides instead of the arithmetic.

Exit codes: 0 every measured row is within or explained; 1 some are not explained, or with --all not measured; 2 wrong usage.
"""

import argparse
import json
import pathlib
import re
import sys

VERDICTS = ("within", "explained", "not explained", "not measured")
FEWEST_CALLS = 5  # in a graph, from which what is paid once per graph no longer counts


def key_of(row, peer):
    return row["op"], row["shape"], row["dtype"], row[peer]


class Comparison:
    def __init__(self, result, earlier, tolerance, also=None):
        """`also`: another result of the same peers, a Comparison itself."""
        self.earlier, self.tolerance, self.also = earlier, tolerance, also
        ceilings = result.get("ceilings", {})
        self.copy, self.empty_node_us = ceilings.get("copy_gbs", 0), ceilings.get("empty_node_us", 0)
        self.peers = result.get("environment", {}).get("peers", {})
        self.rows = {}
        for row in result["rows"]:
            if row["column"] == "peer" and not row.get("phase"):
                self.rows.setdefault(key_of(row, "implementation"), row)
        reference = self.rows.get(key_of(earlier["cublas"], "peer"))
        good = reference is not None and reference["status"] == "ok"
        self.cublas = reference["flops"] / reference["us"]["median"] * 1e-6 if good else 0
        self.cublas_launched = reference["flops"] / reference["launched_us"] * 1e-6 if good and "launched_us" in reference else self.cublas
        if not self.copy:
            raise ValueError("the result has no copy bandwidth")

    def lines(self):
        """All but the reference itself, which would agree with itself."""
        return [self.line(then) for then in self.earlier["rows"] if key_of(then, "peer") != key_of(self.earlier["cublas"], "peer")]

    def line(self, then):
        line = {"op": then["op"], "shape": then["shape"], "dtype": then["dtype"], "peer": then["peer"], "relative_to": "cuBLAS" if "tflops" in then else "copy",
                "ratio_then": None, "ratio_now": None, "difference": None, "verdict": "not measured", "why": ""}
        now = self.rows.get(key_of(then, "peer"))
        work = now or then  # the later run's count of bytes and flops, for both
        if "tflops" in then:
            amount, rate, ceiling_then, ceiling_now = work.get("flops", 0) * 1e-6, then["tflops"], self.earlier["cublas_tflops"], self.cublas
        else:
            amount, ceiling_then, ceiling_now = work.get("bytes", 0) * 1e-3, self.earlier["copy_gbs"], self.copy
            rate = then["gbs"] if "gbs" in then else amount / then["us"]
        line["ratio_then"] = rate / ceiling_then or None
        if now is None or now["status"] != "ok" or not ceiling_now:
            line["why"] = "" if now is None else now.get("note", "")
            return line
        us_then = amount / rate
        us_now = now["us"]["median"]
        line["ratio_now"] = amount / us_now / ceiling_now
        line["difference"] = line["ratio_now"] / line["ratio_then"] - 1
        line["method"] = now.get("method", "")
        if abs(line["difference"]) <= self.tolerance:
            line["verdict"] = "within"
            return line
        line["why"] = self.explanation(then, now, us_then, us_now, ceiling_now / ceiling_then)
        if not line["why"] and self.also is not None:
            other = self.also.line(then)
            if other["verdict"] in ("within", "explained"):
                line["why"] = f"spread: {other['ratio_now']:.3f} in another run of the same day ({other['verdict']}): the peer itself moves that much"
        line["verdict"] = "explained" if line["why"] else "not explained"
        if not line["why"] and "launched_us" in now:
            line["why"] = f"by the earlier method {now['launched_us']:.2f} us now, {us_then:.2f} then"
        return line

    def near(self, us_then, us_now, ceilings, events=1):
        """The ratios agree, or the times do as far as events resolve them; `events`: how many of the two were taken by events."""
        return abs(us_then / us_now / ceilings - 1) <= self.tolerance or abs(us_then - us_now) <= events * self.earlier["event_resolution_us"]

    def explanation(self, then, now, us_then, us_now, ceilings):
        """What accounts for the difference, with its arithmetic; empty if nothing does."""
        because, e = then.get("because", []), self.earlier
        launched = now.get("launched_us")
        if launched:
            scale = self.cublas_launched / e["cublas_tflops"] if "tflops" in then else ceilings
            if self.near(us_then, launched, scale, events=2):
                return f"method: {launched:.2f} us by the earlier one now, {us_then:.2f} then"
            low, high = sorted((launched, now.get("launched_warm_us", launched)))
            if "launched_warm_us" in now and low / (1 + self.tolerance) <= us_then * scale <= high * (1 + self.tolerance):
                return f"regime: {launched:.0f} us by the earlier method, {now['launched_warm_us']:.0f} right after products at full power; {us_then:.0f} then"
            issuing = now.get("host_call_us", {}).get("median", 0)
            if launched - us_now > e["event_gap_us"] + 2 * e["event_resolution_us"] and issuing > launched:
                return f"host: the device needs {us_now:.2f} us, between events it is {launched:.2f} now and was {us_then:.2f}: the host's time, which takes {issuing:.0f} us to issue the call"
        if "host" in because:
            # The host's cost as measured then, else as measured now.
            host = then.get("host_us") or now.get("host_call_us", {}).get("median", 0)
            flush = e["flushed_bytes"] * 1e-3 / e["copy_gbs"]
            if host > flush and 0.5 * host <= us_then <= 1.3 * host and us_now < us_then:
                return f"host: issuing took {host:.0f} us{'' if then.get('host_us') else ' (now)'}, emptying the cache {flush:.0f}; {us_then:.0f} us then is the host's time"
        if "elsewhere" in then:
            there = then["elsewhere"]["tflops"] / then["elsewhere"]["cublas_tflops"]
            here = us_then / us_now * then["tflops"] / self.cublas
            if abs(here / there - 1) <= self.tolerance:
                return f"machine: {there:.3f} of cuBLAS at 8192^3 on another such machine then, {here:.3f} now: short products do not reach the limit of power, the long one does"
        versions = self.earlier.get("peer_versions", {}).get(then["peer"])
        if versions and self.peers.get(then["peer"], versions) != versions:
            return f"version: {then['peer']} {versions} then, {self.peers[then['peer']]} now"
        if "noted" in then and us_now < us_then:
            return f"noted then{' for ' + then['noted_for'] if 'noted_for' in then else ''}: {then['noted']}"
        if launched:
            return ""  # measured by the same method, and not the same: arithmetic would only guess
        calls = re.match(r"graph of (\d+)", now.get("method", ""))
        if not calls or int(calls.group(1)) < FEWEST_CALLS:
            return ""
        gap = e["event_gap_us"] - self.empty_node_us
        if self.near(us_then - gap, us_now, ceilings):
            left = 100 * ((us_then - gap) / us_now / ceilings - 1)
            small = "" if abs(left) <= 100 * self.tolerance else f", less than the {e['event_resolution_us']} us that events resolve"
            return f"gap: {us_then:.2f} us then less {gap:.2f} are {us_then - gap:.2f}; {us_now:.2f} now, which leaves {left:+.1f} %{small}"
        if "flush" in because:
            most = min(now["bytes"], e["l2_bytes"]) * 1e-3 / e["copy_gbs"]
            rest = us_then - gap - us_now * ceilings
            if -self.tolerance * us_now <= rest <= most + self.tolerance * us_now:
                return f"gap and flush: {us_then:.2f} us then less {gap:.2f}; {us_now:.2f} now; the {rest:.1f} us between are no more than {most:.1f} of zeros written back"
        return ""


def counts_of(lines):
    return {verdict: sum(line["verdict"] == verdict for line in lines) for verdict in VERDICTS}


def markdown(lines, comparison, result):
    earlier, environment, counts = comparison.earlier, result.get("environment", {}), counts_of(lines)
    percent = comparison.tolerance * 100
    text = [
        f"Peers on {environment.get('device_name', '?')}, {environment.get('time', '?')}, beside figures of {earlier['measured']} on an {earlier['device']}"
        f" ({earlier['versions']}). Written by `benchmarks/peers/compare.py`.", "",
        f"Then: {earlier['method']} Now: graphs of calls over rotating buffers, cold L2, medians (docs/benchmark.md).", "",
        f"Memory-bound rows are shares of the copy bandwidth ({earlier['copy_gbs']:.0f} GB/s then, {comparison.copy:.0f} now), products and attention shares of cuBLAS"
        f" bf16 8192^3 ({earlier['cublas_tflops']:.0f} TFLOP/s then, {comparison.cublas:.1f} now).", "",
        f"{counts['within']} rows are within {percent:.0f} %, {counts['explained']} differ by more and are explained, {counts['not explained']} are not explained,"
        f" {counts['not measured']} were not measured in the later run.", "",
        "| operator | shape | dtype | peer | of | then | now | difference | verdict | why |", "|---|---|---|---|---|---|---|---|---|---|"]
    for line in sorted(lines, key=lambda one: -VERDICTS.index(one["verdict"]) if one["verdict"] == "not explained" else 0):
        number = lambda name: "-" if line[name] is None else f"{line[name]:.3f}" if line[name] >= 0.1 else f"{line[name]:.3g}"  # noqa: E731
        difference = "-" if line["difference"] is None else f"{100 * line['difference']:+.1f} %"
        why = line["why"].replace("|", "/").replace("\n", " ")
        text.append(f"| {line['op']} | {line['shape']} | {line['dtype']} | {line['peer']} | {line['relative_to']} | {number('ratio_then')} | {number('ratio_now')} |"
                    f" {difference} | {line['verdict']} | {why} |")
    words = {word for line in lines if line["verdict"] == "explained" for word in line["why"].split(":")[0].split()}
    used = [name for name in earlier["explanations"] if name in words]
    if used:
        text += [""] + [f"- *{name}*: {earlier['explanations'][name]}." for name in used]
    return "\n".join(text) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("result", help="result of monotile bench ops with the peers' rows (run.py --out)")
    parser.add_argument("--earlier", default=pathlib.Path(__file__).with_name("earlier.json"), help="the earlier figures (default: earlier.json beside this script)")
    parser.add_argument("--also", help="another result of the same peers: what it accounts for is their own spread")
    parser.add_argument("--tolerance", type=float, default=0.07, help="by how much the ratios may differ (default 0.07)")
    parser.add_argument("--all", action="store_true", help="a peer that was not measured is a failure")
    parser.add_argument("--md", help="write the table here instead of printing it")
    parser.add_argument("--json", help="write the rows with their verdicts")
    arguments = parser.parse_args()
    try:
        with open(arguments.result, encoding="utf-8") as file:
            result = json.load(file)
        with open(arguments.earlier, encoding="utf-8") as file:
            earlier = json.load(file)
        also = None
        if arguments.also:
            with open(arguments.also, encoding="utf-8") as file:
                also = Comparison(json.load(file), earlier, arguments.tolerance)
        comparison = Comparison(result, earlier, arguments.tolerance, also)
        lines = comparison.lines()
    except (OSError, ValueError, KeyError) as error:
        print(f"compare.py: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    text, counts = markdown(lines, comparison, result), counts_of(lines)
    if arguments.md:
        pathlib.Path(arguments.md).write_text(text, encoding="utf-8")
        print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()))
        for line in lines:
            if line["verdict"] == "not explained":
                print(f"  not explained: {line['op']} {line['shape']} {line['peer']}: {line['ratio_then']:.3f} then, {line['ratio_now']:.3f} now. {line['why']}")
    else:
        print(text, end="")
    if arguments.json:
        out = {"copy_gbs": [earlier["copy_gbs"], comparison.copy], "cublas_tflops": [earlier["cublas_tflops"], comparison.cublas], "tolerance": arguments.tolerance,
               "counts": counts, "rows": lines}
        pathlib.Path(arguments.json).write_text(json.dumps(out, indent=1) + "\n", encoding="utf-8")
    failed = counts["not explained"] + (counts["not measured"] if arguments.all else 0)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
