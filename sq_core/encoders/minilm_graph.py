"""Write all-MiniLM-L6-v2 as a plain ONNX graph from its safetensors file; numpy and the `onnx` helper only, no torch.

BERT with six layers: token, position and token-type rows, LayerNorm, then per layer 12-head attention and an exact-GELU
feed-forward block, each with a residual and LayerNorm. Standard operators (opset 20).

Two things are left out on purpose, so that a vector never depends on its batch neighbours: there is no attention mask,
because the encoder batches texts of exactly equal length only and so never pads; and the mean over the tokens is taken
outside, because the runtime's own sums one text and several in a different order (docs/adr/0003-local-encoder.md).

Raise `local.GRAPH_RECIPE` with every change of what this module writes.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

OPSET = 20
IR_VERSION = 10  # of opset 20's time, so that older runtimes read it
LAYERS, HEADS, WIDTH = 6, 12, 384
HEAD_WIDTH = WIDTH // HEADS
EPSILON = 1e-12
MAX_TOKENS = 512  # rows of the position table

Weights = dict[str, NDArray[np.float32]]


def read_safetensors(path: Path) -> Weights:
    """Read the float32 tensors of a safetensors file: 8 bytes of header length, a JSON header, then the raw numbers."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    weights = {}
    for name, entry in json.loads(data[8:start]).items():
        if entry.get("dtype") != "F32":  # the metadata entry and the integer position ids
            continue
        first, last = entry["data_offsets"]
        values = np.frombuffer(data, dtype="<f4", count=(last - first) // 4, offset=start + first)
        weights[name] = values.reshape(entry["shape"]).astype(np.float32, copy=False)
    return weights


class GraphBuilder:
    """Collects nodes and constants under stable names, so that two builds give the same bytes."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, values: NDArray[np.generic]) -> str:
        """Store an array in the graph and return its name."""
        self.constants.append(onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        self.nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def linear(self, x: str, weight: NDArray[np.float32], bias: NDArray[np.float32], name: str) -> str:
        """x @ weight.T + bias; the weight is stored transposed, (in, out)."""
        product = self.node("MatMul", [x, self.constant(f"{name}.weight", weight.T)], f"{name}.product")
        return self.node("Add", [product, self.constant(f"{name}.bias", bias)], name)

    def layer_norm(self, x: str, weights: Weights, prefix: str) -> str:
        """LayerNorm over the last axis with the named scale and shift."""
        scale = self.constant(f"{prefix}.weight", weights[f"{prefix}.weight"])
        shift = self.constant(f"{prefix}.bias", weights[f"{prefix}.bias"])
        return self.node("LayerNormalization", [x, scale, shift], prefix, axis=-1, epsilon=EPSILON)


def build_model(weights: Weights) -> onnx.ModelProto:
    """The graph `input_ids` int64 (n, t) -> `tokens` float32 (n, t, 384), the last layer's token vectors.

    Every row of `input_ids` is a whole text of t tokens, [CLS] and [SEP] included; t at most 512.
    """
    graph = GraphBuilder()
    hidden = _embed(graph, weights)
    shape = graph.constant("split_heads", np.array([0, 0, HEADS, HEAD_WIDTH], dtype=np.int64))
    merged = graph.constant("merge_heads", np.array([0, 0, WIDTH], dtype=np.int64))
    for layer in range(LAYERS):
        prefix = f"encoder.layer.{layer}"
        attended = _attention(graph, weights, hidden, prefix, split_heads=shape, merge_heads=merged)
        hidden = _feed_forward(graph, weights, attended, prefix)
    graph.node("Identity", [hidden], "tokens")
    proto = helper.make_graph(
        graph.nodes,
        "all-MiniLM-L6-v2",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["n", "t"])],
        [helper.make_tensor_value_info("tokens", TensorProto.FLOAT, ["n", "t", WIDTH])],
        graph.constants,
    )
    return helper.make_model(
        proto,
        producer_name="signalbox",
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
    )


def _embed(graph: GraphBuilder, weights: Weights) -> str:
    """Token rows + (position + token-type-0) rows, LayerNorm: (n, t) -> (n, t, 384)."""
    embeddings = "embeddings"
    table = graph.constant("token_rows", weights[f"{embeddings}.word_embeddings.weight"])
    words = graph.node("Gather", [table, "input_ids"], "word_rows", axis=0)
    # Every token is of type 0, so its row is folded into the position table.
    types = weights[f"{embeddings}.token_type_embeddings.weight"]
    rows = graph.constant("position_rows", weights[f"{embeddings}.position_embeddings.weight"] + types[0])
    length = graph.node("Shape", ["input_ids"], "length", start=1, end=2)
    zero = graph.constant("zero", np.array([0], dtype=np.int64))
    positions = graph.node("Slice", [rows, zero, length, zero], "positions")
    return graph.layer_norm(graph.node("Add", [words, positions], "summed"), weights, f"{embeddings}.LayerNorm")


def _attention(
    graph: GraphBuilder, weights: Weights, hidden: str, prefix: str, *, split_heads: str, merge_heads: str
) -> str:
    """Self-attention with residual and LayerNorm: (n, t, 384) -> (n, t, 384)."""
    source, out = f"{prefix}.attention.self", f"{prefix}.attention.output"

    def heads(part: str, order: list[int], scale: float = 1.0) -> str:
        weight = (weights[f"{source}.{part}.weight"] * np.float64(scale)).astype(np.float32)
        bias = (weights[f"{source}.{part}.bias"] * np.float64(scale)).astype(np.float32)
        name = f"{source}.{part}"
        split = graph.node("Reshape", [graph.linear(hidden, weight, bias, name), split_heads], f"{name}.split")
        return graph.node("Transpose", [split], f"{name}.heads", perm=order)

    # The scale 1/sqrt(32) is folded into Q; K comes out already transposed, (n, heads, 32, t).
    query = heads("query", [0, 2, 1, 3], scale=1 / math.sqrt(HEAD_WIDTH))
    scores = graph.node("MatMul", [query, heads("key", [0, 2, 3, 1])], f"{source}.scores")
    shares = graph.node("Softmax", [scores], f"{source}.shares", axis=-1)
    mixed = graph.node("MatMul", [shares, heads("value", [0, 2, 1, 3])], f"{source}.mixed")
    mixed = graph.node("Transpose", [mixed], f"{source}.rows", perm=[0, 2, 1, 3])
    mixed = graph.node("Reshape", [mixed, merge_heads], f"{source}.merged")
    dense = graph.linear(mixed, weights[f"{out}.dense.weight"], weights[f"{out}.dense.bias"], f"{out}.dense")
    return graph.layer_norm(graph.node("Add", [dense, hidden], f"{out}.summed"), weights, f"{out}.LayerNorm")


def _feed_forward(graph: GraphBuilder, weights: Weights, hidden: str, prefix: str) -> str:
    """Dense 384 -> 1536, exact GELU, dense back, residual and LayerNorm: (n, t, 384) -> (n, t, 384)."""
    wide, out = f"{prefix}.intermediate.dense", f"{prefix}.output"
    inner = graph.linear(hidden, weights[f"{wide}.weight"], weights[f"{wide}.bias"], wide)
    inner = graph.node("Gelu", [inner], f"{prefix}.gelu", approximate="none")
    dense = graph.linear(inner, weights[f"{out}.dense.weight"], weights[f"{out}.dense.bias"], f"{out}.dense")
    return graph.layer_norm(graph.node("Add", [dense, hidden], f"{out}.summed"), weights, f"{out}.LayerNorm")


def graph_bytes(weights_file: Path) -> bytes:
    """The serialised ONNX model of a safetensors file; the same bytes on every call with the same `onnx` release."""
    return bytes(build_model(read_safetensors(weights_file)).SerializeToString(deterministic=True))
