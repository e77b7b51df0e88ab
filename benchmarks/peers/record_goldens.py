#!/usr/bin/env python3
"""Records tests/golden/gemma3-270m.json (and .bin beside it) from llama.cpp.

    python record_goldens.py [--model FILE] [--out DIR] [--threads 2]

Run with the python of the peer environment (install_llama_cpp.sh prints it). Needs 1.1 GB of disk for an F32 copy of
the model: see oracle.py for the reason. See tests/golden/README.md for the format.
"""

import argparse
import json
import os
import pathlib
import re
import sys

import numpy as np

import oracle as oracle_module
from oracle import Oracle

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
STEPS = 48
TIE_GAP = 0.5  # a differing greedy token is accepted only where the oracle's best two logits are this close
MAX_LOGIT_ERROR = 2e-2
LOGIT_STRIDE = 16
WINDOW = 512

# (text, parse_special); every text is recorded with and without the BOS token by turns.
TOKENIZER_TEXTS = [
    ("", True),
    (" ", True),
    ("  ", True),
    ("a", True),
    (" a", True),
    ("a ", True),
    ("Hello, world!", True),
    (" Hello, world!", True),
    ("  Hello   world  ", True),
    ("   three leading spaces", True),
    ("trailing spaces    ", True),
    ("many                                spaces inside", True),
    ("\n", True),
    ("\n\n\n", True),
    ("line one\nline two\r\nline three\n\n\nline six", True),
    ("\t", True),
    ("\tindented\t\twith tabs \t mixed", True),
    ("The quick brown fox jumps over the lazy dog.", True),
    ("don't can't I'll we've they're it's", True),
    ("UPPER lower CamelCase snake_case kebab-case", True),
    ("3.14159 1,000,000 0x1F 1e-6 2024-05-17 12:34:56", True),
    ("!@#$%^&*()[]{}<>?/\\|~`'\"", True),
    ("https://example.org/a/b?c=d&e=f#g", True),
    ("def f(x):\n    return x ** 2  # square\n", True),
    ("for (int i = 0; i < n; ++i) {\n\ta[i] += b[i];\n}\n", True),
    ('{"name": "Alice", "tags": ["a", "b"], "n": null}', True),
    ("<div class=\"x\"><b>bold</b></div>", True),
    ("Größe, Straße, Übermut, naïve, façade, œuvre", True),
    ("Zażółć gęślą jaźń", True),
    ("Привет, как дела?", True),
    ("Καλημέρα κόσμε", True),
    ("שלום עולם", True),
    ("مرحبا بالعالم", True),
    ("नमस्ते दुनिया", True),
    ("สวัสดีชาวโลก", True),
    ("日本語のテキストです。", True),
    ("今天天气很好，我们去公园吧！", True),
    ("한국어 텍스트입니다", True),
    ("mixed 日本語 and English и русский, together", True),
    ("😀", True),
    ("emoji 👩‍👩‍👧‍👦 family, flag 🇩🇪, skin 👍🏽, heart ❤️", True),
    ("e\u0301 combining, \u00a0 no-break, \u200b zero width, \ufeff bom", True),
    ("\u2581lower one eighth block\u2581\u2581", True),
    ("byte fallback: \U00013000\U00013001 \U0001d400 \u0e5b\u1b5a \U000e0041", True),
    ("\x00\x01\x02\x1b[31m\x7f", True),
    ("Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft", True),
    ("a" * 200, True),
    ("ab" * 150, True),
    ("=" * 80 + "\n" + "-" * 33, True),
    ("<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n", True),
    ("<start_of_turn>user\nHello<end_of_turn>\n<start_of_turn>model\n", False),
    ("<bos>text<eos>", True),
    ("<bos>text<eos>", False),
    ("text <end_of_turn> text", True),
    ("x<start_of_turn", True),
    ("<start_of_turn><start_of_turn>", True),
    ("<unused7><mask>[multimodal]<pad><unk>", True),
    ("<unused7><mask>[multimodal]<pad><unk>", False),
    ("<0x41><0x0A>", True),
    ("<0x41><0x0A>", False),
    ("<start_of_image>", True),
    ("A paragraph of plain English prose, with commas; semicolons: colons - dashes \u2014 and \u201cquotes\u201d.", True),
]

# Not valid UTF-8: prompts may come from files that were cut anywhere.
INVALID_UTF8 = [b"\xe6\x97", b"abc\x80", b"\xf0\x9f\x98", b"caf\xc3"]

CHATS = [
    {"messages": [{"role": "user", "content": "Hello"}], "add_generation_prompt": True},
    {"messages": [{"role": "user", "content": "Hello"}], "add_generation_prompt": False},
    {"messages": [{"role": "user", "content": "  What is 2 + 2?\n"}, {"role": "assistant", "content": " 4 "},
                  {"role": "user", "content": "And 3 + 3?"}], "add_generation_prompt": True},
    {"messages": [{"role": "system", "content": "Answer in one word."},
                  {"role": "user", "content": "Which planet is the largest?"}], "add_generation_prompt": True},
    {"messages": [{"role": "user", "content": "multi\nline\n\ntext with <b>markup</b> & \u201cquotes\u201d 日本 😀"}],
     "add_generation_prompt": True},
]


def inventory(entries):
    """A long text with facts that can only be known by reading it: long range attention changes the answer."""
    colours = ["red", "green", "blue", "white", "black", "yellow", "grey", "brown"]
    goods = ["lamps", "chairs", "books", "ropes", "jars", "coats", "clocks", "maps", "bells", "drums", "kites"]
    towns = ["Arden", "Belmar", "Corvo", "Dunmore", "Elsik", "Farrow", "Galt"]
    lines = ["Stock list of the harbour store."]
    for index in range(entries):
        lines.append(f"Shelf {index + 1}: {(index * 37 + 11) % 90 + 5} {colours[index * 5 % 8]} {goods[index * 7 % 11]} "
                     f"from {towns[index * 3 % 7]}.")
    return "\n".join(lines) + "\n"


def chat_text(messages):
    return oracle_module.apply_chat_template("gemma", messages, True)


def prompts():
    """name -> text; all are tokenised with BOS and with added tokens parsed."""
    return {
        "completion": "The capital of France is",
        "question": "Question: Which planet is known as the red planet?\nAnswer:",
        "code": "def fibonacci(n):\n    \"\"\"Return the n-th Fibonacci number.\"\"\"\n",
        "story": "Once upon a time, in a small village by the sea, there lived an old clockmaker who",
        "german": "Die drei größten Städte in Deutschland sind",
        "japanese": "日本の首都は東京です。東京は",
        "few_shot": "English: Good morning\nFrench: Bonjour\n\nEnglish: Thank you\nFrench: Merci\n\n"
                    "English: Where is the station?\nFrench:",
        "json": '{"name": "Alice", "age": 30, "city": "Berlin"}\n{"name": "Bob", "age":',
        "chat": chat_text([{"role": "user", "content": "Write one sentence about the moon."}]),
        "chat_turns": chat_text([{"role": "system", "content": "You are a helpful geography teacher."},
                                 {"role": "user", "content": "Name a river in Egypt."},
                                 {"role": "assistant", "content": "The Nile."},
                                 {"role": "user", "content": "And one in Brazil?"}]),
        "long": inventory(42) + "Shelf 43:",
        "longer": inventory(80) + "\nSummary: the store keeps",
    }


LOGIT_PROMPTS = {"completion": 1, "long": LOGIT_STRIDE, "chat_turns": LOGIT_STRIDE}


def mutations(architecture, epsilon):
    """Parameter changes that the goldens must notice, as (name, overrides)."""
    yield "window_halved", {f"{architecture}.attention.sliding_window": WINDOW // 2}
    yield "global_rope_base_x10", {f"{architecture}.rope.freq_base": 1e7}
    yield "local_rope_base_x10", {f"{architecture}.rope.freq_base_swa": 1e5}
    for power in range(1, 7):
        yield f"eps_x1e{power}", {f"{architecture}.attention.layer_norm_rms_epsilon": epsilon * 10.0**power}


def rounded(value):
    return float(f"{value:.6g}")


def relative_error(value, reference):
    value, reference = value.astype(np.float64), reference.astype(np.float64)
    return float(np.linalg.norm(value - reference) / np.linalg.norm(reference))


def sensitivity(path, golden, logits, threads):
    """How far the oracle itself moves under each mutation; the smallest eps that shows ends the eps series."""
    results = []
    eps_shown = False
    for name, overrides in mutations("gemma3", 1e-6):
        if name.startswith("eps") and eps_shown:
            continue
        mutated = Oracle(path, n_ctx=2560, threads=threads, overrides=overrides)
        failing = []
        for entry in golden["greedy"]:
            forced = [step[0] for step in entry["steps"]]
            found = mutated.teacher_forced(entry["prompt_ids"], forced)
            wrong = [i for i, (ours, step) in enumerate(zip(found, entry["steps"]))
                     if ours[0] != step[0] and step[1] - step[3] > TIE_GAP]
            if wrong:
                failing.append({"prompt": entry["name"], "first_step": wrong[0], "steps": len(wrong)})
        errors = {}
        for entry in golden["logits"]:
            found = mutated.last_logits(entry["prompt_ids"])[::entry["stride"]]
            errors[entry["name"]] = rounded(relative_error(found, logits[entry["name"]]))
        mutated.close()
        shows = bool(failing) or max(errors.values()) > MAX_LOGIT_ERROR
        if name.startswith("eps"):
            eps_shown = shows
        results.append({"name": name, "overrides": overrides, "goldens_fail": shows, "logit_error": errors,
                        "greedy_failures": failing})
        print(f"{name}: fail={shows} errors={errors} greedy={failing}", file=sys.stderr)
    return results


def compact(value):
    """JSON with one line per innermost list, so that a diff of two recordings is readable."""
    text = json.dumps(value, indent=1, ensure_ascii=True)
    return re.sub(r"\[[^\[\]{}]*\]", lambda match: re.sub(r"\s*\n\s*", " ", match.group(0)), text) + "\n"


def default_work_dir():
    root = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return pathlib.Path(os.environ.get("PEERS_DIR") or os.path.join(root, "monotile", "peers"))


def quantized_error(path, golden, logits, threads):
    """How far llama.cpp is from its own goldens when it runs the file as it is, rounding activations to 8 bits."""
    quantized = Oracle(path, n_ctx=2560, threads=threads)
    mismatches = {}
    for entry in golden["greedy"]:
        found = quantized.teacher_forced(entry["prompt_ids"], [step[0] for step in entry["steps"]])
        mismatches[entry["name"]] = [[index, ours[0], rounded(step[1] - step[3])]
                                     for index, (ours, step) in enumerate(zip(found, entry["steps"]))
                                     if ours[0] != step[0]]
    errors = {entry["name"]: rounded(relative_error(quantized.last_logits(entry["prompt_ids"])[::entry["stride"]],
                                                    logits[entry["name"]])) for entry in golden["logits"]}
    quantized.close()
    print(f"quantised activations: errors={errors} mismatches={mismatches}", file=sys.stderr)
    return {"logit_error": errors, "greedy_mismatches": mismatches}


def main():
    parser = argparse.ArgumentParser(description="Records the goldens of the demo model from llama.cpp.")
    parser.add_argument("--model", type=pathlib.Path, help="GGUF file (default: the demo model in the cache)")
    parser.add_argument("--out", type=pathlib.Path, default=REPOSITORY / "tests" / "golden")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--work", type=pathlib.Path, default=default_work_dir(), help="where the F32 copy is kept")
    arguments = parser.parse_args()

    manifest = json.loads((REPOSITORY / "tools" / "demo_model.json").read_text())
    if arguments.model is None:
        sys.path.insert(0, str(REPOSITORY / "tools"))
        import fetch_model
        arguments.model = fetch_model.default_cache_dir() / manifest["file"]
    sha256 = oracle_module.sha256_of(arguments.model)

    # The name carries the hash, so a copy of another file is never taken for this one's.
    f32_model = arguments.work / f"{arguments.model.stem}-{sha256[:12]}-f32.gguf"
    if not f32_model.exists():
        arguments.work.mkdir(parents=True, exist_ok=True)
        oracle_module.write_f32_copy(arguments.model, f32_model)

    oracle = Oracle(f32_model, n_ctx=2560, threads=arguments.threads)
    golden = {
        "format": 1,
        "model": {"file": arguments.model.name, "sha256": sha256},
        "oracle": {
            **oracle_module.library_versions(),
            "command": "python benchmarks/peers/record_goldens.py",
            "weights": "F32 copy of the model, written by llama.cpp's quantiser: same values, no rounding of activations",
            "options": {"n_ctx": 2560, "threads": arguments.threads, "flash_attention": False, "kv_cache": "f32",
                        "repacked_weights": False, "gpu_layers": 0, "prefill": "whole prompt, ubatch 512"},
        },
        "limits": {"tie_gap": TIE_GAP, "max_logit_error": MAX_LOGIT_ERROR},
    }

    golden["tokenizer"] = []
    for index, (text, parse_special) in enumerate(TOKENIZER_TEXTS):
        add_bos = index % 3 == 0
        ids = oracle.tokenize(text, add_bos, parse_special)
        golden["tokenizer"].append({"text": text, "add_bos": add_bos, "parse_special": parse_special, "ids": ids,
                                    "detokenized": oracle.detokenize(ids).decode(),
                                    "pieces_hex": [oracle.piece(token).hex() for token in ids]})
    golden["tokenizer_invalid_utf8"] = []
    for data in INVALID_UTF8:
        ids = oracle.tokenize(data, False, True)
        golden["tokenizer_invalid_utf8"].append({"text_hex": data.hex(), "ids": ids,
                                                 "detokenized_hex": oracle.detokenize(ids).hex()})

    golden["chat_template"] = [
        {"template": "gemma (built into llama.cpp; the file has none; BOS is added by the tokenizer)", **chat,
         "rendered": oracle_module.apply_chat_template("gemma", chat["messages"], chat["add_generation_prompt"])}
        for chat in CHATS]

    golden["greedy"] = []
    ids_of = {}
    for name, text in prompts().items():
        ids = ids_of[name] = oracle.tokenize(text, True, True)
        steps = oracle.greedy(ids, STEPS)
        continuation = [step[0] for step in steps]
        golden["greedy"].append({"name": name, "prompt": text, "prompt_ids": ids,
                                 "steps": [[b, rounded(bl), s, rounded(sl)] for b, bl, s, sl in steps],
                                 "text": oracle.detokenize(continuation).decode(errors="replace")})
        gaps = [bl - sl for _, bl, _, sl in steps]
        print(f"{name}: {len(ids)} tokens, min gap {min(gaps):.3f}, {sum(g <= TIE_GAP for g in gaps)} near ties: "
              f"{golden['greedy'][-1]['text']!r}", file=sys.stderr)

    longest = max(len(ids) for ids in ids_of.values())
    if longest < WINDOW + 100:
        raise SystemExit(f"the longest prompt has {longest} tokens, at least {WINDOW + 100} are needed")

    golden["logits"] = []
    logits = {}
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, stride in LOGIT_PROMPTS.items():
        full = oracle.last_logits(ids_of[name])
        logits[name] = full[::stride]
        file_name = f"gemma3-270m.logits-{name}.bin"
        full[::stride].astype("<f4").tofile(arguments.out / file_name)
        top = np.argsort(-full, kind="stable")[:100]
        golden["logits"].append({"name": name, "prompt_ids": ids_of[name], "file": file_name, "stride": stride,
                                 "count": int(len(full[::stride])), "norm": rounded(np.linalg.norm(full)),
                                 "top_ids": [int(i) for i in top], "top_logits": [rounded(full[i]) for i in top]})
    oracle.close()

    golden["quantized_activations"] = {
        "note": "llama.cpp on the quantised file itself, which rounds activations to 8-bit blocks, against the goldens: "
                "the yardstick for a mode that does the same. greedy_mismatches: [step, its token, gap of the golden's "
                "best two logits], teacher-forced.",
        **quantized_error(arguments.model, golden, logits, arguments.threads)}
    golden["sensitivity"] = {
        "note": "What the oracle itself does when one parameter is changed (teacher-forced along the golden tokens). "
                "A run of our engine with the same change must fail the goldens wherever goldens_fail is true; the "
                "last eps entry is the smallest power of ten that shows.",
        "mutations": sensitivity(f32_model, golden, logits, arguments.threads)}

    path = arguments.out / "gemma3-270m.json"
    path.write_text(compact(golden))
    json.loads(path.read_text())
    print(path)


if __name__ == "__main__":
    main()
