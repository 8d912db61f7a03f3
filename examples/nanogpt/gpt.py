"""A small GPT of nanoGPT's shape: pre-norm blocks, tied embeddings, flash or explicit attention, AdamW in two groups."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    """Sizes and switches. `flash` uses scaled_dot_product_attention, else softmax of an explicit score matrix."""

    vocab: int = 65
    block: int = 64
    layers: int = 4
    heads: int = 4
    width: int = 128
    dropout: float = 0.0
    bias: bool = False
    flash: bool = True


class LayerNorm(nn.Module):
    """Layer norm whose bias is optional."""

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, 1e-5)


class Attention(nn.Module):
    """Causal self-attention."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=config.bias)
        self.out = nn.Linear(config.width, config.width, bias=config.bias)
        self.score_dropout = nn.Dropout(config.dropout)
        self.out_dropout = nn.Dropout(config.dropout)
        mask = torch.tril(torch.ones(config.block, config.block)).view(1, 1, config.block, config.block)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        heads = self.config.heads
        query, key, value = (
            part.view(batch, length, heads, width // heads).transpose(1, 2) for part in self.qkv(x).split(width, dim=2)
        )
        if self.config.flash:
            dropout = self.config.dropout if self.training else 0.0
            mixed = F.scaled_dot_product_attention(query, key, value, dropout_p=dropout, is_causal=True)
        else:
            scores = (query @ key.transpose(-2, -1)) * (1.0 / math.sqrt(key.size(-1)))
            scores = scores.masked_fill(self.mask[:, :, :length, :length] == 0, float("-inf"))
            mixed = self.score_dropout(F.softmax(scores, dim=-1)) @ value
        return self.out_dropout(self.out(mixed.transpose(1, 2).contiguous().view(batch, length, width)))


class Block(nn.Module):
    """Attention and a gelu perceptron, each on a normalised residual stream."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.norm1 = LayerNorm(config.width, config.bias)
        self.attention = Attention(config)
        self.norm2 = LayerNorm(config.width, config.bias)
        self.up = nn.Linear(config.width, 4 * config.width, bias=config.bias)
        self.down = nn.Linear(4 * config.width, config.width, bias=config.bias)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class GPT(nn.Module):
    """Token and position embeddings, blocks, and a head that shares the token embedding's weight."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocab, config.width)
        self.positions = nn.Embedding(config.block, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = LayerNorm(config.width, config.bias)
        self.head = nn.Linear(config.width, config.vocab, bias=False)
        self.head.weight = self.tokens.weight
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        """Logits (batch, length, vocab), of the last position only where there are no targets; and the mean loss."""
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.dropout(self.tokens(tokens) + self.positions(positions))
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if targets is None:
            return self.head(x[:, [-1], :]), None
        logits = self.head(x)
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)

    def optimizer(self, lr: float = 1e-3, weight_decay: float = 0.1) -> torch.optim.AdamW:
        """AdamW; matrices decay, vectors do not."""
        parameters = list(self.parameters())
        groups = [
            {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": weight_decay},
            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW(groups, lr=lr, betas=(0.9, 0.99))

    @torch.no_grad()
    def generate(self, tokens: Tensor, count: int, temperature: float = 0.8, top_k: int | None = 20) -> Tensor:
        """Appends `count` sampled tokens to `tokens` (batch, length)."""
        for _ in range(count):
            logits = self(tokens[:, -self.config.block :])[0][:, -1, :] / temperature
            if top_k is not None:
                best, _ = torch.topk(logits, min(top_k, logits.size(-1)))
                logits[logits < best[:, [-1]]] = -float("inf")
            chosen = torch.multinomial(F.softmax(logits, dim=-1), num_samples=1)
            tokens = torch.cat((tokens, chosen), dim=1)
        return tokens
