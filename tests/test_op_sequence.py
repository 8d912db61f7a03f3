"""Every device-dependent branch of torch takes a CPU tensor's way: equal op sequences on whole programs."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from op_sequence import assert_same_ops
from torch import nn
from torch.nn import functional as F
from torch.utils._python_dispatch import _disable_current_modes

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples" / "nanogpt"))
from gpt import GPT, Config  # noqa: E402

CONFIG = dict(vocab=17, block=16, layers=2, heads=2, width=32)


def batch(device: str) -> tuple[torch.Tensor, torch.Tensor]:
    tokens = torch.randint(17, (3, 17))
    return tokens[:, :-1].contiguous().to(device), tokens[:, 1:].contiguous().to(device)


def step(model: GPT, optimizer: torch.optim.Optimizer, device: str, accumulate: int = 1, clip: float = 1.0) -> None:
    for _ in range(accumulate):
        (model(*batch(device))[1] / accumulate).backward()
    if clip:
        nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


@pytest.mark.parametrize("flash", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_gpt_training(flash: bool, bias: bool, dropout: float) -> None:
    def program(device: str) -> None:
        model = GPT(Config(**CONFIG, flash=flash, bias=bias, dropout=dropout)).to(device)
        optimizer = model.optimizer()
        for _ in range(3):
            step(model, optimizer, device)

    names = assert_same_ops(program, at_least=500)
    assert "aten::native_dropout" not in names
    flash_used = "aten::_scaled_dot_product_flash_attention_for_cpu" in names
    assert flash_used == (flash and dropout == 0.0)


@pytest.mark.parametrize(("accumulate", "clip"), [(3, 1.0), (1, 0.0)])
def test_gpt_accumulation_and_clipping(accumulate: int, clip: float) -> None:
    def program(device: str) -> None:
        model = GPT(Config(**CONFIG)).to(device)
        step(model, model.optimizer(), device, accumulate, clip)

    assert_same_ops(program, at_least=300)


def test_gpt_eval_resume_and_sampling() -> None:
    def program(device: str) -> None:
        model = GPT(Config(**CONFIG, dropout=0.2)).to(device)
        optimizer = model.optimizer()
        step(model, optimizer, device)
        file = io.BytesIO()
        with _disable_current_modes():  # transfers of whole storages
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
            file.seek(0)
            saved = torch.load(file, map_location=device, weights_only=True)
        resumed = GPT(Config(**CONFIG, dropout=0.2)).to(device)
        resumed.load_state_dict(saved["model"])
        optimizer = resumed.optimizer()
        optimizer.load_state_dict(saved["optimizer"])
        step(resumed, optimizer, device)
        resumed.eval()
        with torch.no_grad():
            resumed(*batch(device))
        resumed.generate(torch.zeros((1, 1), dtype=torch.long, device=device), 5)

    assert_same_ops(program, at_least=800)


OPTIMIZERS = [
    "SGD", "Adam", "AdamW", "Adamax", "Adadelta", "Adagrad", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "LBFGS", "Adafactor",
]  # fmt: skip
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"lr": 0.1}, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, {"lr": 0.1, "fused": True}, {"lr": 0.1, "foreach": True}],
    "Adam": [{}, {"amsgrad": True}, {"fused": True}, {"foreach": True}, {"weight_decay": 0.1, "maximize": True}],
    "AdamW": [{}, {"amsgrad": True}, {"fused": True}, {"foreach": True}],
    "Adagrad": [{}, {"fused": True}],
    "RMSprop": [{}, {"momentum": 0.9, "centered": True}],
}
CASES = [(name, options) for name in OPTIMIZERS for options in OPTIONS.get(name, [{}])]


def test_all_optimizers_are_listed() -> None:
    known = {name for name in dir(torch.optim) if isinstance(getattr(torch.optim, name), type)}
    assert known - {"Optimizer", "SparseAdam", "Muon"} == set(OPTIMIZERS)


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda value: value if isinstance(value, str) else "-".join(value))
def test_optimizers(name: str, options: dict[str, Any]) -> None:
    def program(device: str) -> None:
        model = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).to(device)
        optimizer = getattr(torch.optim, name)(model.parameters(), **options)
        x = torch.rand(4, 5).to(device)

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)

    assert_same_ops(program, at_least=60, exact_numbers=name not in ("LBFGS", "Adafactor"))


def test_muon_and_averaging() -> None:
    def program(device: str) -> None:
        model = nn.Linear(5, 7, bias=False).to(device)
        average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
        optimizer = torch.optim.Muon(model.parameters())
        model(torch.rand(4, 5).to(device)).square().mean().backward()
        optimizer.step()
        average.update_parameters(model)
        average.update_parameters(model)

    assert_same_ops(program, at_least=30)


X = (2, 4, 6, 6)
MODULES: dict[str, tuple[Any, tuple[int, ...]]] = {
    "linear": (lambda: nn.Linear(6, 5), X),
    "linear without bias": (lambda: nn.Linear(6, 5, bias=False), (3, 6)),
    "conv1d": (lambda: nn.Conv1d(4, 3, 3), (2, 4, 9)),
    "conv2d": (lambda: nn.Conv2d(4, 6, 3, stride=2, padding=1), X),
    "conv2d groups": (lambda: nn.Conv2d(4, 8, 3, groups=4), X),
    "conv2d dilated": (lambda: nn.Conv2d(4, 3, 2, dilation=2, bias=False), X),
    "conv3d": (lambda: nn.Conv3d(2, 3, 2), (1, 2, 4, 4, 4)),
    "conv transpose": (lambda: nn.ConvTranspose2d(4, 3, 3, stride=2), X),
    "batch norm": (lambda: nn.BatchNorm2d(4), X),
    "group norm": (lambda: nn.GroupNorm(2, 4), X),
    "instance norm": (lambda: nn.InstanceNorm2d(4, affine=True), X),
    "layer norm": (lambda: nn.LayerNorm(6), X),
    "rms norm": (lambda: nn.RMSNorm(6), X),
    "local response norm": (lambda: nn.LocalResponseNorm(2), X),
    "max pool": (lambda: nn.MaxPool2d(2), X),
    "avg pool": (lambda: nn.AvgPool2d(2), X),
    "adaptive avg pool": (lambda: nn.AdaptiveAvgPool2d(2), X),
    "adaptive max pool": (lambda: nn.AdaptiveMaxPool2d(2), X),
    "fractional max pool": (lambda: nn.FractionalMaxPool2d(2, output_size=3), X),
    "lp pool": (lambda: nn.LPPool2d(2, 2), X),
    "upsample nearest": (lambda: nn.Upsample(scale_factor=2), X),
    "upsample bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), X),
    "upsample bicubic": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), X),
    "pixel shuffle": (lambda: nn.PixelShuffle(2), X),
    "channel shuffle": (lambda: nn.ChannelShuffle(2), X),
    "reflection pad": (lambda: nn.ReflectionPad2d(1), X),
    "unfold": (lambda: nn.Unfold(2), X),
    "dropout .15": (lambda: nn.Dropout(0.15), X),
    "dropout in place": (lambda: nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.3, inplace=True)), X),
    "dropout 1": (lambda: nn.Dropout(1.0), X),
    "dropout2d": (lambda: nn.Dropout2d(0.4), X),
    "alpha dropout": (lambda: nn.AlphaDropout(0.4), X),
    "feature alpha dropout": (lambda: nn.FeatureAlphaDropout(0.4), X),
    "rrelu": (lambda: nn.RReLU(), X),
    "rnn": (lambda: nn.RNN(6, 5, num_layers=2, dropout=0.2), (7, 3, 6)),
    "rnn cell": (lambda: nn.RNNCell(6, 5), (3, 6)),
    "lstm": (lambda: nn.LSTM(6, 5, num_layers=2, bidirectional=True, batch_first=True), (3, 7, 6)),
    "lstm dropout": (lambda: nn.LSTM(6, 5, num_layers=2, dropout=0.2), (7, 3, 6)),
    "lstm projection": (lambda: nn.LSTM(6, 5, proj_size=3, bias=False), (7, 3, 6)),
    "lstm cell": (lambda: nn.LSTMCell(6, 5), (3, 6)),
    "gru": (lambda: nn.GRU(6, 5, num_layers=2, bidirectional=True), (7, 3, 6)),
    "gru cell": (lambda: nn.GRUCell(6, 5), (3, 6)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(6, 2, 8, dropout=0.1), (7, 3, 6)),
    "spectral norm": (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 5)), X),
    "weight norm": (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 5)), X),
}
ACTIVATIONS = (
    "ELU Hardshrink Hardsigmoid Hardtanh Hardswish LeakyReLU LogSigmoid PReLU ReLU ReLU6 SELU CELU GELU Sigmoid SiLU Mish Softplus "
    "Softshrink Softsign Tanh Tanhshrink GLU Softmin LogSoftmax Softmax2d"
).split()
MODULES |= {name: (getattr(nn, name), X) for name in ACTIVATIONS}


def first_tensor(value: Any) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else first_tensor(value[0])


@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", MODULES)
# the reference is a build without oneDNN, so the branches that the host's build adds are switched off on both sides
def test_modules(name: str, training: bool) -> None:
    make, shape = MODULES[name]

    def program(device: str) -> None:
        module = make().to(device).train(training)
        x = torch.rand(shape).to(device).requires_grad_()
        first_tensor(module(x)).square().sum().backward()

    with torch.backends.mkldnn.flags(enabled=False):
        assert_same_ops(program, at_least=4, ordered=name != "lstm projection")


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_packed_sequences(kind: Any, bidirectional: bool) -> None:
    def program(device: str) -> None:
        module = kind(6, 5, num_layers=2, bidirectional=bidirectional, dropout=0.1).to(device)
        x = torch.rand(7, 3, 6).to(device).requires_grad_()
        packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([7, 4, 2]))
        output, _ = module(packed)
        output.data.square().sum().backward()

    with torch.backends.mkldnn.flags(enabled=False):
        assert_same_ops(program, at_least=50, ordered=kind is not nn.LSTM)


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("training", [True, False])
def test_multihead_attention(mask: bool, training: bool) -> None:
    def program(device: str) -> None:
        module = nn.MultiheadAttention(8, 2, batch_first=True, dropout=0.1).to(device).train(training)
        x = torch.rand(2, 5, 8).to(device).requires_grad_(training)
        extra = {"attn_mask": torch.ones(5, 5, dtype=torch.bool).triu(1).to(device)} if mask else {}
        for need_weights in (True, False):
            module(x, x, x, need_weights=need_weights, **extra)[0].sum()

    assert_same_ops(program, at_least=20)


def test_embedding_bag_and_sparse_free_embedding() -> None:
    def program(device: str) -> None:
        index = torch.tensor([[1, 2, 4], [4, 3, 0]]).to(device)
        embedding = nn.Embedding(10, 4, padding_idx=0, max_norm=1.0)
        for module in (embedding, nn.EmbeddingBag(10, 4, mode="mean"), nn.EmbeddingBag(10, 4)):
            module.to(device)(index).sum().backward()

    assert_same_ops(program, at_least=12)


LOSSES = {
    "l1": F.l1_loss, "mse": F.mse_loss, "smooth l1": F.smooth_l1_loss, "huber": F.huber_loss, "kl": F.kl_div,
    "bce": lambda x, y: F.binary_cross_entropy(x, y), "bce logits": F.binary_cross_entropy_with_logits,
    "poisson": F.poisson_nll_loss, "soft margin": F.soft_margin_loss, "cosine": lambda x, y: F.cosine_similarity(x, y).sum(),
    "cross entropy": lambda x, y: F.cross_entropy(x, y.argmax(1)),
    "smoothed": lambda x, y: F.cross_entropy(x, y, label_smoothing=0.1),
    "nll": lambda x, y: F.nll_loss(x, y.argmax(1), weight=torch.ones(5).to(x.device), ignore_index=2),
    "ctc": lambda x, y: F.ctc_loss(x.log_softmax(1).unsqueeze(1), torch.tensor([[1, 2]]).to(x.device), (4,), (2,)),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name: str) -> None:
    def program(device: str) -> None:
        x, y = torch.rand(4, 5).to(device).requires_grad_(), torch.rand(4, 5).to(device)
        LOSSES[name](x, y).sum().backward()

    assert_same_ops(program, at_least=3)


def test_sdpa_choices() -> None:
    def program(device: str) -> None:
        for shape, options in [
            ((2, 2, 5, 8), {"is_causal": True}),
            ((2, 2, 5, 8), {"attn_mask": torch.zeros(5, 5).to(device)}),
            ((2, 2, 5, 8), {"dropout_p": 0.3}),
            ((2, 5, 8), {}),
            ((2, 2, 5, 8), {"scale": 0.5}),
        ]:
            x = torch.rand(shape).to(device).requires_grad_()
            F.scaled_dot_product_attention(x, x, x, **options).sum().backward()
        x = torch.rand(2, 4, 5, 8).to(device)
        F.scaled_dot_product_attention(x, x[:, :2], x[:, :2], enable_gqa=True)

    names = assert_same_ops(program, at_least=30)
    assert "aten::_scaled_dot_product_flash_attention_for_cpu_backward" in names


def test_transformers_gpt2() -> None:
    transformers = pytest.importorskip("transformers")

    def program(device: str) -> None:
        config = transformers.GPT2Config(vocab_size=40, n_positions=32, n_embd=32, n_layer=2, n_head=2)
        model = transformers.GPT2LMHeadModel(config).to(device)
        optimizer = torch.optim.AdamW(model.parameters())
        tokens = torch.randint(40, (2, 16)).to(device)
        for _ in range(2):
            model(tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        model.eval()
        model.generate(tokens[:, :4], max_new_tokens=4, do_sample=True, pad_token_id=0)

    assert_same_ops(program, at_least=500)


def test_the_comparison_finds_a_different_branch() -> None:
    def program(device: str) -> None:
        x = torch.ones(3, device=device)
        x.exp() if device == "cpu" else x.log()

    with pytest.raises(AssertionError, match="aten::log"):
        assert_same_ops(program)
