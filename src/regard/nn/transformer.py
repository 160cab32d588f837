"""`Transformer`: the encoder–decoder of "Attention Is All You Need", from token ids to logits.

`Encoder` and `Decoder` are stacks of N layers. `Cache` holds the keys and values of a decoder's past tokens.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Container
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from regard.errors import FileError, InputError, OutOfRangeError, RegardError, ShapeError
from regard.nn import model_folder
from regard.nn.config import TransformerConfig
from regard.nn.layers import DecoderLayer, EncoderLayer, KeyValues
from regard.nn.loss import token_loss
from regard.scores import Mask, padding
from regard.support import Bool, Float, Int

FORMAT = "regard.Transformer"  # in config.json


class _Stack(nn.Module):
    """N layers, and a final norm if their sublayers normalize the input instead of the sum."""

    layer: type[EncoderLayer | DecoderLayer]

    def __init__(self, layers: int, width: int, heads: int, hidden: int, *, final_norm: bool = False, **options: Any):
        super().__init__()
        self.layers = nn.ModuleList(self.layer(width, heads, hidden, **options) for _ in range(layers))
        self.norm = nn.LayerNorm(width, bias=options.get("bias", True)) if final_norm else None


class Encoder(_Stack):
    """N encoder layers. Options are those of `EncoderLayer`.

    >>> import torch, regard
    >>> encoder = regard.Encoder(2, width=64, heads=4, hidden=128)
    >>> encoder(torch.randn(3, 10, 64), mask=regard.padding([10, 7, 2])).shape
    torch.Size([3, 10, 64])
    """

    layer = EncoderLayer

    def forward(
        self, x: Float[Tensor, "*batch tokens width"], mask: Mask | Tensor | None = None
    ) -> Float[Tensor, "*batch tokens width"]:
        """Apply all layers, then the final norm if there is one."""
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


class Cache:
    """The keys and values of past tokens, so that a step computes one token instead of the whole sentence.

    >>> import torch, regard
    >>> decoder = regard.Decoder(2, width=64, heads=4, hidden=128, cross=False).eval()
    >>> x, cache = torch.randn(1, 5, 64), regard.Cache(decoder)
    >>> steps = [decoder(x[:, i : i + 1], cache=cache) for i in range(5)]
    >>> torch.allclose(torch.cat(steps, 1), decoder(x), atol=1e-5), cache
    (True, Cache(tokens=5, layers=2))
    """

    def __init__(self, decoder: Decoder):
        self.layers = [(KeyValues(), KeyValues()) for _ in decoder.layers]

    @property
    def tokens(self) -> int:
        """The number of cached tokens."""
        key = self.layers[0][0].key if self.layers else None
        return 0 if key is None else key.shape[-2]

    def pick(self, batch: Tensor, context: Tensor | None = None) -> None:
        """Keep these members of the batch, in this order, as a beam search does after every step.

        Keys and values of the context stay as they are unless `context` picks them too: targets of a source share them.
        """
        for past, cross in self.layers:
            past.pick(batch)
            if context is not None:
                cross.pick(context)

    def check(self, decoder: Decoder, batch: tuple[int, ...]) -> None:
        """Raise if the cache belongs to another model or another batch."""
        if len(self.layers) != len(decoder.layers):
            raise InputError(
                f"this cache was made for a decoder of {len(self.layers)} layers. Got {len(decoder.layers)} layers. "
                "Make another cache with regard.Cache(decoder)."
            )
        if not self.tokens:
            return
        key, (first, *_) = self.layers[0][0].key, decoder.layers
        assert key is not None
        assert isinstance(first, DecoderLayer)
        expected = (*batch, first.attention.key_heads, first.attention.head_width)
        cached = (*key.shape[:-2], key.shape[-1])
        if cached != expected:
            raise InputError(
                f"this cache holds (batch, key heads, head width) = {cached}, but the call has {expected}. "
                "Make a new cache for another batch, or choose members of this batch with cache.pick(batch)."
            )

    def __repr__(self) -> str:
        return f"Cache(tokens={self.tokens}, layers={len(self.layers)})"


class Decoder(_Stack):
    """N decoder layers. Options are those of `DecoderLayer`; with cross=False it is a GPT without embeddings.

    >>> import torch, regard
    >>> decoder = regard.Decoder(2, width=64, heads=4, hidden=128)
    >>> decoder(torch.randn(3, 5, 64), torch.randn(3, 9, 64), context_mask=regard.padding([9, 4, 6])).shape
    torch.Size([3, 5, 64])
    """

    layer = DecoderLayer

    def forward(
        self,
        x: Float[Tensor, "*batch tokens width"],
        context: Float[Tensor, "*sources others context_width"] | None = None,
        mask: Mask | Tensor | None = None,
        context_mask: Mask | Tensor | None = None,
        cache: Cache | None = None,
    ) -> Float[Tensor, "*batch tokens width"]:
        """Apply all layers, then the final norm if there is one; with a cache, x holds only the new tokens."""
        if cache is not None:
            cache.check(self, tuple(x.shape[:-2]))
        for n, layer in enumerate(self.layers):
            x = layer(x, context, mask, context_mask, None if cache is None else cache.layers[n])
        return x if self.norm is None else self.norm(x)


def sinusoids(length: int, width: int) -> Float[Tensor, "length width"]:
    """The positional encoding of the paper, with sines in the first half of each row and cosines in the second.

    >>> sinusoids(3, 4)
    tensor([[ 0.0000,  0.0000,  1.0000,  1.0000],
            [ 0.8415,  0.0100,  0.5403,  0.9999],
            [ 0.9093,  0.0200, -0.4161,  0.9998]])
    """
    position = torch.arange(length, dtype=torch.float64)[:, None]
    angle = position * 10_000.0 ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    return torch.cat([angle.sin().float(), angle.cos().float()], -1)


class Memory(NamedTuple):
    """The encoder's output: a vector for each source token, and which of them are not padding."""

    states: Float[Tensor, "batch tokens width"]
    visible: Bool[Tensor, "batch tokens"]

    @property
    def mask(self) -> Mask:
        """The padding mask for attention to these states."""
        return padding(self.visible)

    def pick(self, batch: Tensor) -> Memory:
        """These members of the batch, in this order."""
        return Memory(self.states.index_select(0, batch), self.visible.index_select(0, batch))


class _NoInit(TorchFunctionMode):
    """Skips random initialization, for models whose weights come from a file."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("uniform_", "normal_", "kaiming_uniform_", "xavier_uniform_"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **(kwargs or {}))


class Transformer(nn.Module):
    """Maps the token ids of a source and of a target to the logits of the next target token, at every position.

    >>> import torch, regard
    >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=100)).eval()
    >>> source, target = torch.randint(1, 99, (2, 7)), torch.randint(1, 99, (2, 5))
    >>> model(source, target).shape
    torch.Size([2, 5, 100])
    >>> memory, cache = model.encode(source), model.cache()
    >>> steps = [model.decode(target[:, i : i + 1], memory, cache) for i in range(5)]       # token by token
    >>> torch.allclose(torch.cat(steps, 1), model(source, target), atol=1e-4)
    True
    """

    positions: Tensor
    output_bias: Tensor
    live: Tensor

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self._compiled = False  # see compile_for_training
        names = ("width", "heads", "hidden", "key_heads", "activation", "norm_first", "bias", "dropout")
        shared = {name: getattr(config, name) for name in names} | {"final_norm": config.norm_first}
        self.embedding = nn.Embedding(config.vocabulary, config.width, padding_idx=config.pad)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.encoder = Encoder(config.encoder_layers, **shared)
        self.decoder = Decoder(config.decoder_layers, **shared)
        self.drop = nn.Dropout(config.dropout)
        self.register_buffer("output_bias", torch.zeros(config.vocabulary))
        self.register_buffer("positions", sinusoids(config.positions, config.width), persistent=False)
        self.register_buffer("live", torch.arange(config.vocabulary).ne(config.pad)[:, None], persistent=False)
        with torch.no_grad():
            self.embedding.weight.mul_(self.live)

    def forward(
        self, source: Int[Tensor, "batch others"], target: Int[Tensor, "batch tokens"]
    ) -> Float[Tensor, "batch tokens vocabulary"]:
        """Compute the logits of every next token, for all positions at once."""
        return self.decode(target, self.encode(source))

    def encode(self, source: Int[Tensor, "batch tokens"]) -> Memory:
        """Compute a vector for each source token."""
        x, visible = self.enter(source)
        return Memory(self.encoder(x, self._mask(visible)), visible)

    def enter(
        self, source: Int[Tensor, "batch tokens"]
    ) -> tuple[Float[Tensor, "batch tokens width"], Bool[Tensor, "batch tokens"]]:
        """Compute the input of the encoder, embeddings with positions, and which tokens are not padding."""
        self._check(source, "source")
        visible = source.ne(self.config.pad)
        if self._may_read(source) and not bool(visible.any(-1).all()):
            blank = int((~visible.any(-1)).nonzero()[0, 0])
            raise InputError(f"Sentence {blank} of the source is all padding (id {self.config.pad}). Leave it out.")
        return self._embed(source, 0), visible

    def decode(
        self, target: Int[Tensor, "batch tokens"], memory: Memory, cache: Cache | None = None
    ) -> Float[Tensor, "batch tokens vocabulary"]:
        """Compute the logits after each target token; with a cache, `target` holds only the new tokens.

        k × batch targets may share the memory of a batch, k consecutive targets for each source.
        """
        return self.logits(self.states(target, memory, cache))

    def states(
        self, target: Int[Tensor, "batch tokens"], memory: Memory, cache: Cache | None = None
    ) -> Float[Tensor, "batch tokens width"]:
        """Compute the output of the decoder at each position, before the product with the embedding."""
        self._check(target, "target")
        if len(target) % len(memory.states):
            raise ShapeError(
                "target and memory must have the same batch, or each source the same number of consecutive targets. "
                f"Got {len(target)} and {len(memory.states)} sentences."
            )
        x = self._embed(target, 0 if cache is None else cache.tokens)
        decoded: Tensor = self.decoder(x, memory.states, context_mask=self._mask(memory.visible), cache=cache)
        return decoded

    def logits(self, states: Float[Tensor, "*batch width"]) -> Float[Tensor, "*batch vocabulary"]:
        """Compute states · Eᵀ + bias."""
        return functional.linear(states, self._head(), self.output_bias)

    def loss(
        self, source: Int[Tensor, "batch others"], target: Int[Tensor, "batch tokens"], smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """Compute the mean of -log p over the tokens of the target after the first, padding excluded.

        >>> import torch, regard
        >>> model = regard.Transformer(regard.TransformerConfig.tiny(vocabulary=100))
        >>> target = torch.tensor([[99, 5, 6, 7, 0], [99, 5, 0, 99, 99]])      # start, tokens, end, padding
        >>> model.loss(torch.randint(1, 99, (2, 7)), target, smoothing=0.1).shape
        torch.Size([])
        """
        if target.dim() != 2 or target.shape[1] < 2:
            raise ShapeError(
                f"target must be (sentences, tokens), with at least a start and one token. Got {tuple(target.shape)}."
            )
        states, labels = self.states(target[:, :-1], self.encode(source)).flatten(0, 1), target[:, 1:].flatten()
        options: Any = {"ignore": self.config.pad, "smoothing": smoothing, "compiled": self._compiled}
        return token_loss(states, self._head(), self.output_bias, labels, **options)

    def compile_for_training(self, *, skip: Container[nn.Module] = ()) -> None:
        """Compile the layers and the loss with torch.compile: the first step takes a minute, later steps are faster.

        Each layer is compiled for any number of sentences and tokens; layers of a kind share their code. The layers in
        `skip` are not compiled: someone replaced their `attend`.
        """
        for layer in (*self.encoder.layers, *self.decoder.layers):
            if layer not in skip:
                layer.compile(dynamic=True)
        self._compiled = True

    def _head(self) -> Tensor:
        weight = self.embedding.weight
        # The row of padding is zero and stays zero: it gets no gradient from here either.
        return torch.where(self.live, weight, weight.detach()) if self.training else weight

    def cache(self) -> Cache:
        """Make an empty cache for decoding token by token."""
        return Cache(self.decoder)

    def _embed(self, tokens: Tensor, past: int) -> Tensor:
        end = past + tokens.shape[1]
        if end > self.config.positions:
            raise ShapeError(
                f"this model has positions for {self.config.positions} tokens. Got a sequence of {end}: split the "
                "text, or build the model with TransformerConfig(positions=…)."
            )
        embedded: Tensor = self.drop(self.embedding(tokens) * math.sqrt(self.config.width) + self.positions[past:end])
        return embedded

    def _mask(self, visible: Tensor) -> Mask | None:
        """The padding mask; None without padding, where the test does not wait for a GPU."""
        unpadded = visible.device.type == "cpu" and self._may_read(visible) and bool(visible.all())
        return None if unpadded else padding(visible)

    def _may_read(self, tokens: Tensor) -> bool:
        """Whether Python may read the values of tokens: on a GPU, reading them would stall every training step."""
        return not torch.compiler.is_compiling() and (tokens.device.type == "cpu" or not self.training)

    def _check(self, tokens: Tensor, name: str) -> None:
        if tokens.dim() != 2 or 0 in tokens.shape:
            raise ShapeError(
                f"{name} must be (sentences, tokens), with at least one of each. Got {tuple(tokens.shape)}."
                + (f" Pass a single sentence as {name}[None]." if tokens.dim() == 1 else "")
            )
        if self._may_read(tokens):
            low, high = (int(t) for t in torch.aminmax(tokens))
            if low < 0 or high >= self.config.vocabulary:
                raise OutOfRangeError(
                    f"{name} must hold ids from 0 to {self.config.vocabulary - 1}. Got ids from {low} to {high}. "
                    "Was it encoded with another vocabulary?"
                )

    def __str__(self) -> str:
        return str(self.config)

    # On disk

    def save(self, path: str | Path, *, int8: bool = False) -> None:
        """Write config.json and model.safetensors into a folder; `int8` rounds the weights to a quarter of their size.

        >>> import tempfile, regard
        >>> model = regard.Transformer(regard.TransformerConfig.tiny())
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.save(folder)
        ...     regard.Transformer.load(folder).config == model.config
        True
        """
        config = {"format": FORMAT} | dataclasses.asdict(self.config)
        model_folder.write(Path(path), config, self.state_dict(), int8=int8)

    @classmethod
    def load(cls, path: str | Path) -> Transformer:
        """Open a folder that `save` wrote, in eval mode."""
        folder = Path(path)
        fields = model_folder.read_config(folder)
        if fields.pop("format", None) != FORMAT:
            is_marian = fields.get("model_type") == "marian"
            hint = " It looks like Marian: Transformer.from_marian(path)." if is_marian else ""
            raise FileError(f"{folder / 'config.json'} does not describe a regard Transformer.{hint}")
        fields.pop("sha256", None)
        try:
            config = TransformerConfig(**fields)
        except (TypeError, RegardError) as error:
            raise FileError(f"{folder / 'config.json'} does not describe a Transformer: {error}") from None
        return cls._with_weights(config, model_folder.read_tensors(folder), folder)

    @classmethod
    def from_marian(cls, path: str | Path) -> Transformer:
        """Open a Hugging Face Marian folder: any of the public OPUS-MT translators."""
        folder = Path(path)
        config = model_folder.from_marian_config(model_folder.read_config(folder), folder)
        tensors = model_folder.from_marian(model_folder.read_tensors(folder), config, folder)
        return cls._with_weights(config, tensors, folder)

    def to_marian(self, path: str | Path) -> None:
        """Write a Hugging Face Marian folder, which transformers opens and CTranslate2 converts."""
        model_folder.write_marian(Path(path), self.config, self.state_dict())

    @classmethod
    def _with_weights(cls, config: TransformerConfig, tensors: dict[str, Tensor], folder: Path) -> Transformer:
        stored = sum(tensor.numel() for tensor in tensors.values())
        if config.parameters > 2 * stored:  # a wrong config must not exhaust the memory
            raise FileError(
                f"The weights of {folder} hold {stored:,} numbers, but its config.json describes {config.parameters:,} "
                "parameters."
            )
        try:
            with _NoInit():
                model = cls(config)
        except InputError as error:
            raise FileError(f"{folder / 'config.json'} does not describe a Transformer: {error}") from None
        model_folder.load_into(model, tensors, folder)
        return model.eval()
