#!/usr/bin/env python3
"""CPU decode speed of `monotile generate` against llama.cpp: same machine, same threads, same file.

    python cpu_decode.py --monotile build/release/monotile [--runs 5] [--threads 2] [--tokens 128] [--json FILE]

Run with the python of the peer environment (install_llama_cpp.sh prints it). Runs are interleaved and each is a process
of its own; the order within a pair changes from pair to pair, so a drift of the machine hits both. A pair that other
processes disturbed is run again: llama.cpp's OpenMP threads wait for each other by spinning, and one busy neighbour takes
it from 100 to 10 tokens per second, which would flatter us.

llama.cpp runs with its own defaults (repacked weights, fp16 KV cache, automatic flash attention). Its figure is the time
in llama_decode alone, as its own benchmark counts; ours is what the command reports, choice of the token included.

Then one run of each to 2,048 tokens for the prefill speed and the peak resident memory.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
SHORT_PROMPT = "Once upon a time, in a small village by the sea, there lived an old clockmaker who"
MEMORY_TOKENS = 2048
MEMORY_ALLOWANCE = 150e6  # bytes above the size of the file
N_CTX = 4096
BUILD_PLACES = ("build/release", "build/cpu", "build")


def find_monotile():
    for place in BUILD_PLACES:
        for below in ("", "bin/", "src/cli/", "tools/"):
            path = REPOSITORY / place / f"{below}monotile"
            if path.is_file() and os.access(path, os.X_OK):
                return path
    return None


def busy_seconds():
    """CPU seconds that the machine has spent on anything but idling, stolen time included."""
    with open("/proc/stat") as stat:
        user, nice, system, _, _, irq, softirq, steal = (int(field) for field in stat.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def run_measured(command):
    """Runs `command`; returns its stdout and {peak resident bytes, share of the CPUs that other processes took}."""
    start, busy = time.monotonic(), busy_seconds()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        others = max(busy_seconds() - busy - usage.ru_utime - usage.ru_stime, 0.0)
        share = others / ((time.monotonic() - start) * os.cpu_count())
        out.seek(0)
        errors.seek(0)
        if process.returncode != 0:
            tail = errors.read().decode(errors="replace").strip().splitlines()[-1:]
            raise SystemExit(f"cpu_decode.py: {command[0]} ended with {process.returncode}: {' '.join(tail)}")
        return out.read().decode(), {"peak_resident_bytes": usage.ru_maxrss * 1024, "other_cpu_share": round(share, 3)}


def peer_run(model, prompt, tokens, threads):
    """Child process: one run of llama.cpp, result as JSON on stdout."""
    import numpy as np
    from oracle import Oracle
    peer = Oracle(model, n_ctx=N_CTX, threads=threads, plain=False)
    ids = peer.tokenize(prompt, True, True)
    peer.decode(ids)  # warm: pages of the file are read, threads are there
    peer.reset()
    start = time.perf_counter()
    peer.decode(ids)
    prefill = time.perf_counter() - start
    decode = 0.0
    for _ in range(tokens):
        token = int(np.argmax(peer.logits()))
        start = time.perf_counter()
        peer.decode([token])
        decode += time.perf_counter() - start
    print(json.dumps({"prompt_tokens": len(ids), "generated_tokens": tokens,
                      "prefill_tokens_per_second": len(ids) / prefill, "decode_tokens_per_second": tokens / decode}))


def run_peer(arguments, prompt, tokens):
    out, usage = run_measured([sys.executable, str(pathlib.Path(__file__).resolve()), "--peer-run", str(tokens), prompt,
                                "--model", str(arguments.model), "--threads", str(arguments.threads)])
    return {**json.loads(out.strip().splitlines()[-1]), **usage}


def run_ours(arguments, prompt, tokens):
    command = [str(arguments.monotile), "generate", "--model", str(arguments.model), "--prompt", prompt, "--max-tokens",
               str(tokens), "--json", "--seed", "1", "--temperature", "0", "--device", "cpu", "--threads",
               str(arguments.threads)] + arguments.extra
    out, usage = run_measured(command)
    try:
        result = json.loads(out[out.index("{"):])
    except ValueError as error:
        raise SystemExit(f"cpu_decode.py: no JSON from {' '.join(command[:2])}: {error}") from error
    return {**{key: value for key, value in result.items() if isinstance(value, (int, float))},
            **usage}


def peer_describe(model, limit):
    """Child process: versions of the peer, and the longest stock list with fewer than `limit` tokens."""
    from oracle import Oracle, library_versions
    from record_goldens import inventory
    peer = Oracle(model, n_ctx=256, threads=1)
    entries = 1
    while len(peer.tokenize(inventory(entries + 1), True, True)) < limit:
        entries += 1
    text = inventory(entries)
    print(json.dumps({"versions": library_versions(), "prompt": text,
                      "prompt_tokens": len(peer.tokenize(text, True, True))}))


def wait_until_quiet(max_other, seconds):
    """Returns once other processes leave the CPUs alone for a second, or after `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        start, busy = time.monotonic(), busy_seconds()
        time.sleep(1)
        if (busy_seconds() - busy) / ((time.monotonic() - start) * os.cpu_count()) <= max_other:
            return
    print(f"the machine did not get quiet within {seconds} s", flush=True)


def main():
    parser = argparse.ArgumentParser(description="CPU decode speed against llama.cpp.")
    parser.add_argument("--model", type=pathlib.Path, help="GGUF file (default: the demo model in the cache)")
    parser.add_argument("--monotile", type=pathlib.Path, default=find_monotile(), help="our binary")
    parser.add_argument("--runs", type=int, default=5, help="interleaved pairs (default: 5)")
    parser.add_argument("--tokens", type=int, default=128, help="tokens decoded in a run (default: 128)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--min-ratio", type=float, help="exit with 1 when ours / llama.cpp is below this")
    parser.add_argument("--max-other", type=float, default=0.05, metavar="SHARE",
                        help="a pair during which other processes took more of the CPUs is run again (default: 0.05)")
    parser.add_argument("--json", type=pathlib.Path, help="write all figures to this file")
    parser.add_argument("--peer-only", action="store_true", help="measure llama.cpp alone")
    parser.add_argument("--skip-memory", action="store_true", help="no run to 2,048 tokens")
    parser.add_argument("--extra", nargs=argparse.REMAINDER, default=[], help="further arguments for our binary")
    parser.add_argument("--wait", type=int, default=120, metavar="S", help="longest wait for a quiet machine before a pair")
    parser.add_argument("--peer-describe", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--peer-run", nargs=2, metavar=("TOKENS", "PROMPT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()

    if arguments.model is None:
        sys.path.insert(0, str(REPOSITORY / "tools"))
        import fetch_model
        manifest = json.loads(fetch_model.MANIFEST.read_text())
        arguments.model = fetch_model.default_cache_dir() / manifest["file"]
    if not arguments.model.is_file():
        raise SystemExit(f"cpu_decode.py: {arguments.model} not found; run tools/fetch_model.py")
    if arguments.peer_run:
        peer_run(arguments.model, arguments.peer_run[1], int(arguments.peer_run[0]), arguments.threads)
        return
    if arguments.peer_describe:
        peer_describe(arguments.model, arguments.peer_describe)
        return
    if not arguments.peer_only and (arguments.monotile is None or not arguments.monotile.is_file()):
        raise SystemExit(f"cpu_decode.py: our binary not found ({arguments.monotile}); build it or pass --monotile")

    # This process must stay small: Linux counts its memory into the peak of the processes that it starts. Anything that
    # loads the model is done in children.
    out, _ = run_measured([sys.executable, str(pathlib.Path(__file__).resolve()), "--model", str(arguments.model),
                           "--peer-describe", str(MEMORY_TOKENS - 128)])
    peer = json.loads(out.strip().splitlines()[-1])
    report = {"model": arguments.model.name, "model_bytes": arguments.model.stat().st_size, "threads": arguments.threads,
              "prompt": SHORT_PROMPT, "decoded_tokens": arguments.tokens, "peer": peer["versions"],
              "load_average_before": os.getloadavg(), "runs": []}
    with open("/proc/cpuinfo") as cpuinfo:
        report["cpu"] = next((line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")), "?")

    retries = 0
    while len(report["runs"]) < arguments.runs:
        pair = len(report["runs"])
        measured = {}
        wait_until_quiet(arguments.max_other, arguments.wait)
        order = ["llama.cpp", "monotile"] if pair % 2 == 0 else ["monotile", "llama.cpp"]
        for name in order:
            if name == "llama.cpp":
                measured[name] = run_peer(arguments, SHORT_PROMPT, arguments.tokens)
            elif not arguments.peer_only:
                measured[name] = run_ours(arguments, SHORT_PROMPT, arguments.tokens)
        disturbance = max(run["other_cpu_share"] for run in measured.values())
        line = ", ".join(f"{name} {run['decode_tokens_per_second']:.1f} tokens/s" for name, run in measured.items())
        if disturbance > arguments.max_other and retries < 2 * arguments.runs:
            retries += 1
            print(f"again : {line}: dropped, other processes took {disturbance:.0%} of the CPUs", flush=True)
            continue
        report["runs"].append(measured)
        print(f"pair {pair + 1}: {line}" + (f" (others took {disturbance:.0%} of the CPUs)"
                                            if disturbance > arguments.max_other else ""), flush=True)
    report["dropped_pairs"] = retries

    names = ["llama.cpp"] if arguments.peer_only else ["llama.cpp", "monotile"]
    medians = {name: statistics.median(run[name]["decode_tokens_per_second"] for run in report["runs"])
               for name in names}
    report["median_decode_tokens_per_second"] = medians
    for name, value in medians.items():
        spread = [run[name]["decode_tokens_per_second"] for run in report["runs"]]
        print(f"{name:>10}: decode median {value:.1f} tokens/s  (min {min(spread):.1f}, max {max(spread):.1f})")
    failed = False
    if not arguments.peer_only:
        report["ratio"] = medians["monotile"] / medians["llama.cpp"]
        print(f"     ratio: {report['ratio']:.3f} (monotile / llama.cpp)")
        disturbed = [run for pair in report["runs"] for run in pair.values()
                     if run["other_cpu_share"] > arguments.max_other]
        if disturbed:
            print("            not valid: other processes used the CPUs")
        elif arguments.min_ratio is not None and report["ratio"] < arguments.min_ratio:
            print(f"            below {arguments.min_ratio}")
        failed = bool(disturbed) or (arguments.min_ratio is not None and report["ratio"] < arguments.min_ratio)

    if not arguments.skip_memory:
        text, count = peer["prompt"], peer["prompt_tokens"]
        limit = report["model_bytes"] + MEMORY_ALLOWANCE
        report["long"] = {"prompt_tokens": count, "total_tokens": MEMORY_TOKENS, "limit_resident_bytes": limit}
        for name in names:
            run = (run_peer if name == "llama.cpp" else run_ours)(arguments, text, MEMORY_TOKENS - count)
            report["long"][name] = run
            print(f"{name:>10}: {count} tokens prefill {run['prefill_tokens_per_second']:.0f} tokens/s, decode up to "
                  f"{MEMORY_TOKENS} {run['decode_tokens_per_second']:.1f} tokens/s, peak resident "
                  f"{run['peak_resident_bytes'] / 1e6:.0f} MB")
        if "monotile" in names:
            within = report["long"]["monotile"]["peak_resident_bytes"] <= limit
            print(f"    memory: limit {limit / 1e6:.0f} MB (file + 150 MB): {'kept' if within else 'EXCEEDED'}")
            failed = failed or not within

    report["load_average_after"] = os.getloadavg()
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
