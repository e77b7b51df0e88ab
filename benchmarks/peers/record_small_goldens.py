#!/usr/bin/env python3
"""Records tests/golden/small-<architecture>.json from llama.cpp, for the random models in tests/models.

    python record_small_goldens.py [--models DIR] [--out DIR]

Run with the python of the peer environment. As for the demo model, the oracle runs an F32 copy of each file.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import oracle as oracle_module
from oracle import Oracle
from record_goldens import MAX_LOGIT_ERROR, REPOSITORY, TIE_GAP, compact, relative_error, rounded
from record_chat_templates import render

sys.path.insert(0, str(REPOSITORY / "tests" / "models"))
import make_small_models as models  # noqa: E402

STEPS = 16
N_CTX = 512

TOKENIZER_TEXTS = [
    "", " ", "  ", "the", " the", "the train", "  the  train  ", "the station is where the sea is, one two three.",
    "WHERE Is It?", "tab\tand\nnew line\r\n", "größe 日本 😀", "aaaaaaaaaaaaaaaaaaaa", "the<sep>train", "<sep>", " <sep> the",
    "<s>the</s>", "<start_of_turn>user\nthe sea<end_of_turn>\n", "\u2581the\u2581sea", "<0x41>", "thethethe whole tile of tiles",
]

CHATS = [
    ([{"role": "user", "content": "where is the sea"}], True),
    ([{"role": "system", "content": " one word "}, {"role": "user", "content": "the train"},
      {"role": "assistant", "content": "leaves"}, {"role": "user", "content": "when"}], True),
    ([{"role": "user", "content": "the sea"}, {"role": "assistant", "content": " is there "}], False),
]

# 1 token, a few, and more than three windows of 16.
PROMPTS = {
    "bos": "",
    "short": "the train",
    "long": "the station is where the train and the sea are, one two three four five and again. when does it leave?",
}


def mutations(architecture, epsilon, rope_base):
    yield "eps_x10", {f"{architecture}.attention.layer_norm_rms_epsilon": epsilon * 10}
    yield "rope_base_x10", {f"{architecture}.rope.freq_base": rope_base * 10}
    if architecture == "gemma3":
        yield "window_halved", {"gemma3.attention.sliding_window": models.SLIDING_WINDOW // 2}
        yield "local_rope_base_x10", {"gemma3.rope.freq_base_swa": models.ROPE_BASE_LOCAL * 10}
        yield "sliding_pattern_default", {"gemma3.attention.sliding_window_pattern": 6}


def record_model(path, architecture, scratch):
    f32_path = scratch / "f32.gguf"
    oracle_module.write_f32_copy(path, f32_path)
    oracle = Oracle(f32_path, n_ctx=N_CTX)
    entry = {"file": path.name, "sha256": oracle_module.sha256_of(path), "prompts": []}
    logits = {}
    for name, text in PROMPTS.items():
        ids = oracle.tokenize(text, True, True)
        logits[name] = oracle.last_logits(ids)
        entry["prompts"].append({
            "name": name, "prompt": text, "prompt_ids": ids,
            "steps": [[b, rounded(bl), s, rounded(sl)] for b, bl, s, sl in oracle.greedy(ids, STEPS)],
            "logits": [float(f"{value:.8g}") for value in logits[name]]})
    oracle.close()

    # The file itself must load, too; how far its rounded activations are is the yardstick for modes that round.
    quantized = Oracle(path, n_ctx=N_CTX)
    entry["quantized_activations_logit_error"] = {}
    for prompt in entry["prompts"]:
        error = relative_error(quantized.last_logits(prompt["prompt_ids"]), logits[prompt["name"]])
        entry["quantized_activations_logit_error"][prompt["name"]] = rounded(error)
    quantized.close()

    entry["sensitivity"] = []
    long_ids = entry["prompts"][-1]["prompt_ids"]
    for name, overrides in mutations(architecture, models.EPSILON[architecture], models.ROPE_BASE[architecture]):
        mutated = Oracle(f32_path, n_ctx=N_CTX, overrides=overrides)
        error = relative_error(mutated.last_logits(long_ids), logits["long"])
        mutated.close()
        entry["sensitivity"].append({"name": name, "overrides": overrides, "logit_error": rounded(error)})
        if error <= MAX_LOGIT_ERROR:
            raise SystemExit(f"{path.name}: {name} does not show (error {error:.2g})")
    return entry


def main():
    parser = argparse.ArgumentParser(description="Records the goldens of the small random models from llama.cpp.")
    parser.add_argument("--models", type=pathlib.Path, default=REPOSITORY / "tests" / "models")
    parser.add_argument("--out", type=pathlib.Path, default=REPOSITORY / "tests" / "golden")
    arguments = parser.parse_args()
    for architecture, shapes in models.SHAPES.items():
        golden = {
            "format": 1,
            "oracle": {**oracle_module.library_versions(),
                       "command": "python benchmarks/peers/record_small_goldens.py",
                       "weights": "F32 copy of each model, written by llama.cpp's quantiser",
                       "options": {"n_ctx": N_CTX, "threads": 2, "flash_attention": False, "kv_cache": "f32"}},
            "limits": {"tie_gap": TIE_GAP, "max_logit_error": MAX_LOGIT_ERROR},
            "tokenizer": [], "chat_template": [], "models": []}
        names = [name for group in shapes for name in group]
        first = arguments.models / f"small-{architecture}-{names[0]}.gguf"
        oracle = Oracle(first, n_ctx=N_CTX)
        for index, text in enumerate(TOKENIZER_TEXTS):
            for parse_special in (True, False):
                add_bos = index % 2 == 0
                ids = oracle.tokenize(text, add_bos, parse_special)
                golden["tokenizer"].append({"text": text, "add_bos": add_bos, "parse_special": parse_special,
                                            "ids": ids, "detokenized": oracle.detokenize(ids).decode(),
                                            "pieces_hex": [oracle.piece(token).hex() for token in ids]})
        oracle.close()
        for messages, add_generation_prompt in CHATS:
            golden["chat_template"].append({
                "messages": messages, "add_generation_prompt": add_generation_prompt,
                "rendered": render(models.CHAT_TEMPLATES[architecture], messages=messages, bos_token="<s>",
                                   eos_token="</s>", add_generation_prompt=add_generation_prompt)})
        with tempfile.TemporaryDirectory() as scratch:
            for name in names:
                path = arguments.models / f"small-{architecture}-{name}.gguf"
                golden["models"].append(record_model(path, architecture, pathlib.Path(scratch)))
                entry = golden["models"][-1]
                print(path.name, entry["quantized_activations_logit_error"],
                      {item["name"]: item["logit_error"] for item in entry["sensitivity"]}, file=sys.stderr)
        path = arguments.out / f"small-{architecture}.json"
        path.write_text(compact(golden))
        json.loads(path.read_text())
        print(path)


if __name__ == "__main__":
    main()
