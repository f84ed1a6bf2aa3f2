"""Embedding models of a few kilobytes, written in the real file formats: each word has its direction, a text is their mean."""

from __future__ import annotations

import importlib.util
import json
import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

WORDS = ["garden", "flowers", "spring", "invoice", "march", "money", "cat", "dog", "we", "in", "the", ".", "is", "due"]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY = [*SPECIAL, *WORDS]
DIMS = 32
CONTEXT = 64


def skip_without(packages: list[str], switch: str, extra: str) -> pytest.MarkDecorator:
    """Skip, visibly, where an engine is not installed; fail instead where the environment demands it."""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    demanded = os.environ.get(switch) == "1"
    reason = f"needs {', '.join(missing)} (pip install 'homebody[{extra}]'; {switch}=1 makes this a failure)"
    return pytest.mark.skipif(bool(missing) and not demanded, reason=reason)


def directions() -> Any:
    """Return one row for each word: words of one subject lie close together, special tokens nowhere."""
    import numpy as np

    random = np.random.default_rng(7)
    table = random.normal(size=(len(VOCABULARY), DIMS)).astype(np.float32)
    for group in (["garden", "flowers", "spring"], ["invoice", "march", "money", "due"], ["cat", "dog"]):
        centre = random.normal(size=DIMS).astype(np.float32) * 3
        for word in group:
            table[VOCABULARY.index(word)] += centre
    return table


def write_onnx(folder: Path) -> None:
    """Write model.onnx (a table look-up) and a tokenizer, as fastembed wants them."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    from tokenizers import Tokenizer, models, pre_tokenizers

    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])
    mask = helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch", "length"])
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["batch", "length", DIMS])
    look_up = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([look_up], "words", [ids, mask], [out], [numpy_helper.from_array(directions(), "table")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, str(folder / "model.onnx"))
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(VOCABULARY)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": CONTEXT, "pad_token": "[PAD]"}))
    (folder / "config.json").write_text(json.dumps({"hidden_size": DIMS, "pad_token_id": 0}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]", "unk_token": "[UNK]"}))


def write_gguf(path: Path) -> None:
    """Write a BERT of one block that changes nothing: the vector of a text is the mean of its words' directions."""
    import gguf
    import numpy as np

    writer = gguf.GGUFWriter(str(path), "bert")
    writer.add_name("words")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(DIMS)
    writer.add_block_count(1)
    writer.add_feed_forward_length(DIMS)
    writer.add_head_count(2)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(value=False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    # in this format a piece that begins a word carries the mark of a space, and one that continues it none
    writer.add_token_list([word if word in SPECIAL else f"\u2581{word}" for word in VOCABULARY])
    writer.add_token_types([gguf.TokenType.CONTROL if word in SPECIAL else gguf.TokenType.NORMAL for word in VOCABULARY])
    writer.add_token_type_count(2)
    for add, word in (
        (writer.add_pad_token_id, "[PAD]"),
        (writer.add_unk_token_id, "[UNK]"),
        (writer.add_bos_token_id, "[CLS]"),
        (writer.add_sep_token_id, "[SEP]"),
        (writer.add_mask_token_id, "[MASK]"),
    ):
        add(VOCABULARY.index(word))
    zeros, ones = np.zeros(DIMS, np.float32), np.ones(DIMS, np.float32)
    square = np.zeros((DIMS, DIMS), np.float32)
    writer.add_tensor("token_embd.weight", directions())
    writer.add_tensor("position_embd.weight", np.zeros((CONTEXT, DIMS), np.float32))
    writer.add_tensor("token_types.weight", np.zeros((2, DIMS), np.float32))
    for norm in ("token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"):
        writer.add_tensor(f"{norm}.weight", ones)
        writer.add_tensor(f"{norm}.bias", zeros)
    for layer in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_up", "ffn_down"):
        writer.add_tensor(f"blk.0.{layer}.weight", square)
        writer.add_tensor(f"blk.0.{layer}.bias", zeros)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
