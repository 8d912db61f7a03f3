"""Programs whose models and modules nobody here wrote, in sizes that a minute trains: published packages, unchanged.

A program is called with a device and returns its results; it draws its weights and data on that device or on the CPU.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils._pytree import tree_leaves, tree_map

VOCABULARY, LENGTH = 97, 24


@dataclass(frozen=True)
class Program:
    """`run(device)` returns tensors; `package` is what it takes to be installed."""

    name: str
    package: str
    run: Callable[[str], list[Tensor]]

    @property
    def installed(self) -> bool:
        return importlib.util.find_spec(self.package) is not None


def train(model: nn.Module, device: str, steps: int) -> list[Tensor]:
    """AdamW on random tokens, gradients clipped; returns the losses and the parameters."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses = []
    for _ in range(steps):
        tokens = torch.randint(VOCABULARY, (2, LENGTH), device=device)
        output = model(tokens[:, :-1])
        logits = getattr(output, "logits", output)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    model.eval()
    return [*losses, *model.parameters()]


def prompt(device: str) -> Tensor:
    return torch.tensor([[5, 9, 2]], device=device)


# transformers


def hugging_face(kind: str, device: str, steps: int, **sizes: Any) -> list[Tensor]:
    """GPT-2, Llama or BERT from a configuration: trained, then sampled (GPT-2), decoded greedily (Llama), or masked (BERT)."""
    import transformers

    heads = {"GPT2": "GPT2LMHeadModel", "Llama": "LlamaForCausalLM", "Bert": "BertForMaskedLM"}
    config = getattr(transformers, f"{kind}Config")(vocab_size=VOCABULARY, bos_token_id=0, eos_token_id=0, **sizes)
    model = getattr(transformers, heads[kind])(config).to(device)
    results = train(model, device, steps)
    if kind == "Bert":
        mask = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], device=device)
        return [*results, model(torch.ones_like(mask), attention_mask=mask).logits]
    sampling = {"do_sample": True, "top_k": 10} if kind == "GPT2" else {"do_sample": False}
    return [*results, model.generate(prompt(device), max_new_tokens=8, pad_token_id=0, **sampling)]


BLOCKS = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 64,
}  # fmt: skip


# llms-from-scratch


def stand_in_for_tiktoken() -> None:
    """Empty modules for a tokenizer that the package imports and its models do not use, where it is not installed."""
    if "tiktoken" in sys.modules or importlib.util.find_spec("tiktoken"):
        return
    for name in ("tiktoken", "tiktoken.load"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["tiktoken.load"].load_tiktoken_bpe = None  # type: ignore[attr-defined]


def from_scratch(kind: str, device: str, steps: int) -> list[Tensor]:
    """The book's GPT-2, Llama 3 or Qwen 3: trained, then decoded greedily by the book's own function."""
    stand_in_for_tiktoken()
    from llms_from_scratch import ch04, llama3, qwen3

    sizes = {"vocab_size": VOCABULARY, "context_length": 64, "emb_dim": 32, "n_heads": 4, "n_layers": 2}
    gpt = {**sizes, "drop_rate": 0.1, "qkv_bias": True}
    grouped = {**sizes, "hidden_dim": 48, "n_kv_groups": 2, "rope_base": 500_000.0, "dtype": torch.float32}
    frequencies = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_context_length": 64}
    make = {
        "gpt2": lambda: ch04.GPTModel(gpt),
        "gpt2 fast": lambda: ch04.GPTModelFast(gpt),
        "llama3": lambda: llama3.Llama3Model({**grouped, "rope_freq": frequencies}),
        "qwen3": lambda: qwen3.Qwen3Model({**grouped, "head_dim": 8, "qk_norm": True}),
    }
    model = make[kind]().to(device)
    results = train(model, device, steps)
    return [*results, ch04.generate_text_simple(model, prompt(device), 8, 64)]


# torch.nn


def encoder(device: str, steps: int) -> list[Tensor]:
    """torch.nn's own transformer encoder and decoder, trained on a regression."""
    model = nn.Transformer(32, 4, 2, 2, 48, dropout=0.1, activation="gelu", batch_first=True).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        source, target = torch.randn(2, 9, 32, device=device), torch.randn(2, 7, 32, device=device)
        loss = F.mse_loss(model(source, target), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [loss.detach(), *model.parameters()]


def recurrent(device: str, steps: int) -> list[Tensor]:
    """An LSTM and a GRU, trained."""
    layers = [nn.LSTM(6, 8, 2, batch_first=True).to(device), nn.GRU(8, 5, batch_first=True, bidirectional=True).to(device)]
    optimizer = torch.optim.Adam([p for layer in layers for p in layer.parameters()], lr=0.01)
    for _ in range(steps):
        x = torch.randn(3, 7, 6, device=device)
        for layer in layers:
            x = layer(x)[0]
        optimizer.zero_grad()
        x.square().mean().backward()
        optimizer.step()
    return [p for layer in layers for p in layer.parameters()]


def module(info: Any, device: str) -> list[Tensor]:
    """A module of torch.nn on the inputs that torch's own tests give it, forward and backward; its results and gradients."""
    torch.manual_seed(0)
    results = []
    for case in info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=True):
        made = case.constructor_input
        if case.forward_input is None:
            continue
        layer = info.module_cls(*made.args, **made.kwargs).to(device)
        args, kwargs = tree_map(partial(_move, device), (case.forward_input.args, case.forward_input.kwargs))
        outputs = [t for t in tree_leaves(layer(*args, **kwargs)) if isinstance(t, Tensor)]
        differentiable = [t for t in outputs if t.requires_grad]
        if differentiable:
            torch.autograd.backward(differentiable, [torch.ones_like(t) for t in differentiable])
        inputs = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        results += [*outputs, *(t.grad for t in [*inputs, *layer.parameters()] if t.grad is not None)]
    return results


def _move(device: str, value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    moved = value.detach().to(device, copy=True)
    return moved.requires_grad_(value.requires_grad)


def modules() -> Iterator[Program]:
    """Every module that torch's module tests know."""
    from torch.testing._internal.common_modules import module_db

    for info in module_db:
        if torch.float32 in info.dtypes:
            yield Program(f"torch.nn {info.module_cls.__name__}", "torch", partial(module, info))


def models(steps: int = 3) -> list[Program]:
    """The models, each trained for `steps`."""

    def named(name: str, package: str, function: Callable[..., list[Tensor]], *args: Any, **kwargs: Any) -> Program:
        return Program(name, package, lambda device: function(*args, device=device, steps=steps, **kwargs))

    return [
        named("transformers GPT-2", "transformers", hugging_face, "GPT2", n_positions=64, n_embd=32, n_layer=2, n_head=4),
        named("transformers Llama", "transformers", hugging_face, "Llama", **BLOCKS, num_key_value_heads=2),
        named("transformers BERT", "transformers", hugging_face, "Bert", **BLOCKS),
        *(
            named(f"llms-from-scratch {kind}", "llms_from_scratch", from_scratch, kind)
            for kind in ("gpt2", "gpt2 fast", "llama3", "qwen3")
        ),
        named("torch.nn Transformer", "torch", encoder),
        named("torch.nn LSTM and GRU", "torch", recurrent),
    ]
