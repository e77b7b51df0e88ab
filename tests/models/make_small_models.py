#!/usr/bin/env python3
"""Makes the small random models of the engine's tests: one GGUF file per architecture and weight type.

    python tests/models/make_small_models.py [--out DIR]

Run with the python of the peer environment (benchmarks/peers/install_llama_cpp.sh prints it). The F32 file of each shape is
written with the `gguf` package, the others are made from it by llama.cpp's quantiser, so the block formats are not ours.
The same versions give the same bytes; tests/golden/small-*.json records their sha256.
"""

import argparse
import dataclasses
import pathlib
import sys
import tempfile

import gguf
import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY / "benchmarks" / "peers"))

import oracle as oracle_module  # noqa: E402

SEED = 20240517
SPACE = "\u2581"


@dataclasses.dataclass(frozen=True)
class Shape:
    n_embd: int
    n_ff: int
    n_layer: int
    n_head: int
    n_head_kv: int
    head_dim: int


# (llama_ftype, ggml type): numbers of llama.h and ggml.h.
WEIGHT_TYPES = {
    "f32": (0, 0),
    "f16": (1, 1),
    "bf16": (32, 30),
    "q4_0": (2, 2),
    "q5_0": (8, 6),
    "q8_0": (7, 8),
    "q4_k": (14, 12),
    "q6_k": (18, 14),
}

# Rows of plain types may have any length, those of the 32-blocks a multiple of 32, those of the K types a multiple of
# 256. Three shapes per architecture therefore, all but the last with lengths that are no multiple of 256.
PLAIN, BLOCK_32, BLOCK_256 = ("f32", "f16", "bf16"), ("q4_0", "q5_0", "q8_0"), ("q4_k", "q6_k")
SHAPES = {
    "llama": {
        PLAIN: Shape(n_embd=128, n_ff=168, n_layer=2, n_head=2, n_head_kv=1, head_dim=64),
        BLOCK_32: Shape(n_embd=192, n_ff=224, n_layer=2, n_head=3, n_head_kv=1, head_dim=64),
        BLOCK_256: Shape(n_embd=256, n_ff=256, n_layer=2, n_head=4, n_head_kv=2, head_dim=64),
    },
    "gemma3": {  # n_head * head_dim differs from n_embd in the first two
        PLAIN: Shape(n_embd=104, n_ff=168, n_layer=3, n_head=2, n_head_kv=1, head_dim=64),
        BLOCK_32: Shape(n_embd=160, n_ff=224, n_layer=3, n_head=3, n_head_kv=1, head_dim=64),
        BLOCK_256: Shape(n_embd=256, n_ff=256, n_layer=3, n_head=2, n_head_kv=1, head_dim=128),
    },
}
CONTEXT_LENGTH = 512
SLIDING_WINDOW = 16
SLIDING_PATTERN = 3  # layers 0 and 1 see the window, layer 2 everything
EPSILON = {"llama": 1e-2, "gemma3": 2e-2}  # large, so that a wrong one shows
ROPE_BASE = {"llama": 10000.0, "gemma3": 1000000.0}
ROPE_BASE_LOCAL = 5000.0  # not the default 10000, so that reading the key is tested

CORPUS = """the small model has no knowledge but it has words and the words have letters in them
one two three four five six seven eight nine ten and then again from one to ten
a tile is a part of the whole and the whole is made of tiles on the floor of the house
where is the station and when does the next train leave for the town by the sea"""

CHAT_TEMPLATES = {
    "llama": "{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}"
             "{% elif message['role'] == 'system' %}{{ '<<SYS>>' + message['content'] | trim + '<</SYS>>\\n' }}"
             "{% else %}{{ ' ' + message['content'] + eos_token }}{% endif %}{% endfor %}",
    "gemma3": "{{ bos_token }}{% for message in messages %}\n"
              "    {%- set role = 'model' if message.role == 'assistant' else message.role -%}\n"
              "    {{ '<start_of_turn>' ~ role ~ '\\n' }}{{ message.content | trim }}{{ '<end_of_turn>\\n' }}\n"
              "{%- endfor -%}\n"
              "{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}",
}


def vocabulary():
    """(pieces, scores, types): special tokens, bytes, and pieces grown by merging the most frequent neighbours."""
    kind = gguf.TokenType
    pieces, scores, types = [], [], []

    def add(piece, score, token_type):
        pieces.append(piece)
        scores.append(score)
        types.append(int(token_type))

    add("<unk>", 0.0, kind.UNKNOWN)
    add("<s>", 0.0, kind.CONTROL)
    add("</s>", 0.0, kind.CONTROL)
    for byte in range(256):
        add(f"<0x{byte:02X}>", 0.0, kind.BYTE)
    add("<start_of_turn>", -1000.0, kind.CONTROL)
    add("<end_of_turn>", -1000.0, kind.CONTROL)
    add("<sep>", -1000.0, kind.USER_DEFINED)

    words = [list(SPACE + word) for word in CORPUS.split()]
    letters = sorted(set(SPACE + "abcdefghijklmnopqrstuvwxyz.,"))
    merges = []
    while len(merges) < 40:  # an odd number of pieces in all, so that every tile of the vocabulary has a tail
        counts = {}
        for word in words:
            for pair in zip(word, word[1:]):
                counts[pair] = counts.get(pair, 0) + 1
        best = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append("".join(best))
        for word in words:
            index = 0
            while index + 1 < len(word):
                if (word[index], word[index + 1]) == best:
                    word[index:index + 2] = [merges[-1]]
                index += 1
    for rank, merge in enumerate(dict.fromkeys(merges)):
        add(merge, -float(rank + 1), kind.NORMAL)
    for rank, letter in enumerate(letters):
        add(letter, -float(100 + rank), kind.NORMAL)
    return pieces, scores, types


def write_f32(path, architecture, shape):
    pieces, scores, types = vocabulary()
    n_vocab = len(pieces)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(f"small random {architecture}")
    writer.add_context_length(CONTEXT_LENGTH)
    writer.add_embedding_length(shape.n_embd)
    writer.add_block_count(shape.n_layer)
    writer.add_feed_forward_length(shape.n_ff)
    writer.add_head_count(shape.n_head)
    writer.add_head_count_kv(shape.n_head_kv)
    writer.add_key_length(shape.head_dim)
    writer.add_value_length(shape.head_dim)
    writer.add_layer_norm_rms_eps(EPSILON[architecture])
    writer.add_rope_freq_base(ROPE_BASE[architecture])
    if architecture == "llama":
        writer.add_rope_dimension_count(shape.head_dim)
        writer.add_vocab_size(n_vocab)
    else:
        writer.add_sliding_window(SLIDING_WINDOW)
        writer.add_uint32("gemma3.attention.sliding_window_pattern", SLIDING_PATTERN)
        writer.add_float32("gemma3.rope.freq_base_swa", ROPE_BASE_LOCAL)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(pieces)
    writer.add_token_scores(scores)
    writer.add_token_types(types)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(architecture == "llama")
    writer.add_chat_template(CHAT_TEMPLATES[architecture])

    rng = np.random.default_rng(SEED + sum(map(ord, architecture)) + shape.n_embd)

    def matrix(rows, columns, gain=1.0):
        """[rows, columns] with variance gain^2 / columns: the product keeps the size of its input."""
        return (rng.standard_normal((rows, columns)) * (gain / np.sqrt(columns))).astype(np.float32)

    def norm(size, centre=1.0):
        return (centre * (1.0 + 0.2 * rng.standard_normal(size))).astype(np.float32)

    q_rows, kv_rows = shape.n_head * shape.head_dim, shape.n_head_kv * shape.head_dim
    # Logits get a standard deviation of about 3. Gemma ties embedding and output, so its residual stream must grow well
    # beyond the embedding, or each token would predict itself: its post-norms have a large weight for that.
    is_gemma = architecture == "gemma3"
    writer.add_tensor("token_embd.weight", matrix(n_vocab, shape.n_embd, 3.0))
    for layer in range(shape.n_layer):
        block = f"blk.{layer}"
        writer.add_tensor(f"{block}.attn_norm.weight", norm(shape.n_embd))
        # Attention scores get a standard deviation of about 2, so that attention looks somewhere.
        writer.add_tensor(f"{block}.attn_q.weight", matrix(q_rows, shape.n_embd, 1.0 if is_gemma else 1.5))
        writer.add_tensor(f"{block}.attn_k.weight", matrix(kv_rows, shape.n_embd, 1.0 if is_gemma else 1.5))
        writer.add_tensor(f"{block}.attn_v.weight", matrix(kv_rows, shape.n_embd))
        writer.add_tensor(f"{block}.attn_output.weight", matrix(shape.n_embd, q_rows, 1.0 if is_gemma else 2.0))
        if is_gemma:
            writer.add_tensor(f"{block}.attn_q_norm.weight", norm(shape.head_dim, 1.5))
            writer.add_tensor(f"{block}.attn_k_norm.weight", norm(shape.head_dim, 1.5))
            writer.add_tensor(f"{block}.post_attention_norm.weight", norm(shape.n_embd, 12.0))
        writer.add_tensor(f"{block}.ffn_norm.weight", norm(shape.n_embd))
        writer.add_tensor(f"{block}.ffn_gate.weight", matrix(shape.n_ff, shape.n_embd))
        writer.add_tensor(f"{block}.ffn_up.weight", matrix(shape.n_ff, shape.n_embd))
        writer.add_tensor(f"{block}.ffn_down.weight", matrix(shape.n_embd, shape.n_ff, 1.0 if is_gemma else 2.0))
        if is_gemma:
            writer.add_tensor(f"{block}.post_ffw_norm.weight", norm(shape.n_embd, 8.0))
    writer.add_tensor("output_norm.weight", norm(shape.n_embd))
    if not is_gemma:
        writer.add_tensor("output.weight", matrix(n_vocab, shape.n_embd, 3.0))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def make_all(directory):
    directory.mkdir(parents=True, exist_ok=True)
    paths = []
    with tempfile.TemporaryDirectory() as scratch:
        for architecture, shapes in SHAPES.items():
            for names, shape in shapes.items():
                source = pathlib.Path(scratch) / "source.gguf"
                write_f32(source, architecture, shape)
                for name in names:
                    path = directory / f"small-{architecture}-{name}.gguf"
                    file_type, tensor_type = WEIGHT_TYPES[name]
                    oracle_module.quantize(source, path, file_type, tensor_type)
                    paths.append(path)
    return paths


def main():
    parser = argparse.ArgumentParser(description="Makes the small random models of the engine's tests.")
    parser.add_argument("--out", type=pathlib.Path, default=REPOSITORY / "tests" / "models")
    arguments = parser.parse_args()
    for path in make_all(arguments.out):
        print(f"{path.stat().st_size:9d}  {oracle_module.sha256_of(path)}  {path.name}")


if __name__ == "__main__":
    main()
