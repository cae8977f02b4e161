"""Laws of positional encoding that a loaded transformers model must obey. ``check`` tests these laws."""

import copy
import inspect
import sys
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from posenc.errors import InvalidArgument
from posenc.integrations.huggingface.config import read
from posenc.integrations.huggingface.language_model import cached, text_config
from posenc.integrations.huggingface.measuring import differences, measure
from posenc.integrations.huggingface.measuring.evidence import untested_windows
from posenc.integrations.huggingface.measuring.inputs import TokenIds
from posenc.integrations.huggingface.measuring.measured import AXES
from posenc.integrations.huggingface.measuring.probe import unchanged
from posenc.kernels.memory import free_memory
from posenc.laws.check import Report, verdict
from posenc.laws.law import Broken, NotAsked, law, near, owed

LENGTH, SHORT, NEW = 24, 17, 4
"""The lengths in tokens of a text, of a shorter text in the same batch, and of a generated continuation."""
TEXTS = (
    "The cat that sat upon the mat by the door of the old house saw a dog run down the road to the sea.",
    "A bird sang in the tall tree at the end of the long garden all day.",
)
NARROW = {torch.bfloat16, torch.float16}


class LoadedModel:
    """A model to check, and its outputs. 16-bit weights are copied to float32 if memory allows.

    Raises:
        InvalidArgument: the model accepts no token ids.
    """

    def __init__(self, model: Any, tokenizer: Any = None, packed: bool = True) -> None:
        dtypes, size = {p.dtype for p in model.parameters()}, 4 * sum(p.numel() for p in model.parameters())
        copied = bool(dtypes & NARROW) and dtypes <= {torch.float32, *NARROW} and size < free_memory(model.device)
        self.model = nn.Module.float(copy.deepcopy(model)) if copied else model
        self.loaded, self.tokenizer, self.packed, self.config = model, tokenizer, packed, model.config
        self.exact = copied or dtypes <= {torch.float32, torch.float64}
        self.takes, self.ids = inspect.signature(model.forward).parameters, TokenIds(model)
        if not self.ids.accepted:
            raise InvalidArgument(
                f"{type(model).__name__} does not take token ids; its first argument is "
                f"{next(iter(self.takes), 'missing')}"
            )

    def output(self, ids: Tensor, *, loaded: bool = False, caches: Any = None, **more: Any) -> Any:
        """Run the model, continuing from ``caches`` if given, and return its output. If ``loaded`` is true, run
        the model as it was loaded, in its own dtype."""
        decoded = {"decoder_input_ids": self.ids.draw(1, SHORT).expand(len(ids), -1)} if self.ids.decodes else {}
        given = {"input_ids": ids, **decoded, "use_cache": False, "return_dict": True, **more}
        taken = {name: value for name, value in given.items() if name in (*self.takes, "return_dict")}
        return (self.loaded if loaded else self.model)(**taken, **(caches or {}))

    def answers(self, ids: Tensor, **more: Any) -> Tensor:
        """Return the logits, or the last hidden states, at every token."""
        return self.output(ids, **more)[0].float()

    def same(self, got: Tensor, want: Tensor, what: str) -> None:
        """Require equal outputs, except for rounding errors, which grow over many layers."""
        near(got, want, (1e-3 if self.exact else 0.05) * float(want.abs().max()), what)

    @cached_property
    def batch(self) -> tuple[Tensor, Tensor]:
        """Two texts padded to the same length, and the mask of their real tokens."""
        if self.tokenizer is not None:
            both = self.tokenizer(list(TEXTS), padding=True, return_tensors="pt").to(self.ids.device)
            return both["input_ids"], both["attention_mask"]
        mask = torch.ones_like(ids := self.ids.draw(2, LENGTH))
        mask[1, slice(LENGTH - SHORT) if self.causal else slice(SHORT, None)] = 0
        return ids.where(mask.bool(), getattr(text_config(self.config), "pad_token_id", None) or 0), mask

    def alone(self, mask: Tensor) -> dict[str, Tensor]:
        """Return position ids that count the real tokens of a text, if the model accepts position ids."""
        return {"position_ids": (mask.cumsum(-1) - 1).clamp(min=0)} if self.ids.takes_positions else {}

    @cached_property
    def causal(self) -> bool:
        """Whether every token sees only itself and earlier tokens."""
        ids = self.ids.draw(1, LENGTH)
        others = torch.cat((ids[:, :-1], ids[:, -1:] % 4 + 4), 1)
        return not self.ids.decodes and torch.equal(self.answers(ids)[:, 0], self.answers(others)[:, 0])

    @cached_property
    def positions(self) -> Any:
        """The position settings of the model's config, or the reason why they are unknown."""
        try:
            return read(self.config)
        except InvalidArgument as error:
            return str(error)

    @property
    def axes(self) -> int:
        """The number of axes of the model's position ids."""
        return AXES if any(recipe.get("axes") for recipe in getattr(self.positions, "recipes", {}).values()) else 1


@law()
def reads_padded_texts_as_each_alone(model: LoadedModel) -> None:
    """In a padded batch, each text gives the same outputs as when it is read alone.

    Pass attention_mask with the batch, and attention_mask.cumsum(-1) − 1 as position ids, not column numbers.
    """
    ids, mask = model.batch
    answers = model.answers(ids, attention_mask=mask, **model.alone(mask))
    for row, text, shown in zip(answers, ids, mask.bool(), strict=True):
        want = model.answers(text[shown][None], **model.alone(torch.ones_like(text[shown])[None]))[0]
        what = f"a text of {int(shown.sum())} tokens in {len(shown)} columns"
        model.same(row[shown] if len(row) == len(shown) else row, want, what)


def _caches_nothing(model: LoadedModel) -> str:
    if "use_cache" not in model.takes or not model.causal:
        return "it has no cache" if model.causal else "it is not causal"
    return (
        ""
        if cached(model.output(model.ids.draw(1, NEW), use_cache=True))
        else NotAsked("its output has no transformers cache to pass back, although its forward has use_cache")
    )


@law(_caches_nothing)
def reads_chunks_as_the_whole(model: LoadedModel) -> None:
    """A text read in chunks with a cache gives the same outputs as when it is read in one pass.

    Start the positions of a chunk after the positions in the cache, at ``get_seq_length()``.
    """
    ids, caches, answers = model.ids.draw(2, LENGTH), dict[str, Any](), []
    for chunk in ids.split((SHORT - NEW, NEW, LENGTH - SHORT), 1):
        output = model.output(chunk, caches=caches, use_cache=True)
        caches = cached(output)
        answers.append(output[0].float())
    model.same(torch.cat(answers, 1), model.answers(ids), "read in chunks")


@law(lambda model: _caches_nothing(model) or ("" if model.model.can_generate() else "it does not generate"))
def generates_as_without_a_cache(model: LoadedModel) -> None:
    """A padded batch with a cache generates tokens with the same logits as each text alone without a cache.

    Pad on the left (``tokenizer.padding_side = "left"``), pass attention_mask, and count the positions of new
    tokens from this mask.
    """
    ids, mask = model.batch
    output = model.model.generate(
        ids,
        attention_mask=mask,
        max_new_tokens=NEW,
        do_sample=False,
        num_beams=1,
        pad_token_id=int(ids[1, 0]),
        output_logits=True,
        return_dict_in_generate=True,
    )
    for row, text, shown in zip(torch.stack(output.logits, 1), output.sequences, mask.bool(), strict=True):
        alone = torch.cat((text[: len(shown)][shown], text[len(shown) :]))[None, :-1]
        what = f"generated after a text of {int(shown.sum())} tokens in {len(shown)} columns"
        model.same(row, model.answers(alone)[0, -len(row) :], what)


def _packs_nothing(model: LoadedModel) -> str:
    if not (model.causal and model.ids.takes_positions) or not any(
        hasattr(sys.modules[type(module).__module__], "create_causal_mask") for module in model.model.modules()
    ):
        return "its masks ignore position ids; pack with an explicit mask" if model.causal else "it is not causal"
    return "" if model.packed else NotAsked("packed=False")


@law(_packs_nothing)
def reads_packed_texts_as_each_alone(model: LoadedModel) -> None:
    """Texts in one row, whose position ids restart at 0, give the same outputs as when they are read alone.

    If you pass packed position ids to the model, pass no attention_mask and no cache. The model's code must pass
    these ids on to ``create_causal_mask``. If positions have several axes, put one more axis in front, which counts
    the tokens of each text. Alternatively, separate the texts with an explicit mask. Recurrent layers ignore
    masks and position ids: with such layers, pack no texts, and pass packed=False.
    """
    ids = model.ids.draw(1, LENGTH)
    texts = ids.split((LENGTH - SHORT, SHORT), 1)
    at = torch.cat([torch.arange(text.shape[1], device=ids.device) for text in texts])[None]
    packed = model.answers(ids, position_ids=at if model.axes == 1 else at.expand(model.axes + 1, 1, -1))
    model.same(packed, torch.cat([model.answers(text) for text in texts], 1), "packed")


@law(lambda model: "its positions have one axis" if model.axes == 1 else "" if model.causal else "it is not causal")
def sees_across_positions_that_stand_still(model: LoadedModel) -> None:
    """If one axis of position ids is constant over an image, later tokens still see the tokens before the image.

    Derive packing (cu_seqlens, masks) from a token's index in its row, never from one axis of position ids.
    """
    ids = model.ids.draw(1, LENGTH)
    at = torch.arange(LENGTH, device=ids.device).repeat(model.axes, 1, 1)
    at[0, :, NEW : LENGTH - NEW] = NEW
    first, second = (
        model.answers(torch.cat((start, ids[:, 1:]), 1), position_ids=at)[0]
        for start in (ids[:, :1], ids[:, :1] % 4 + 4)
    )
    owed(not bool((first == second).all(-1).any()), "some tokens do not see the first one")


def _unread(model: LoadedModel) -> str:
    if isinstance(model.positions, str):
        return NotAsked(model.positions)
    return "" if model.exact else NotAsked("its weights are quantised, or a float32 copy does not fit into memory")


@law(_unread)
def does_what_its_config_says(model: LoadedModel) -> str:
    """The model's pairs, frequencies, factors, windows, biases and tables match its config.

    If this model differs, but a new model built from its config does not, load this model again with
    from_pretrained and the config used in training; ``posenc inspect`` explains a config. If the new model differs
    too, loading is not the cause: the model's code is wrong or posenc misreads the config; report it to posenc.
    """
    texts = differences(measure(model.model), model.positions)
    if texts:
        raise Broken(f"{'; '.join(texts[:2])}{f'; and {len(texts) - 2} more' * (len(texts) > 2)} ({_whose(model)})")
    return untested_windows(model.positions)


def _whose(model: LoadedModel) -> str:
    """Say whether a new model built from the same config also differs from posenc's reading of the config."""
    try:
        differs = differences(anew := measure(model.config), read(anew.config))
    except InvalidArgument as error:
        return f"a new model built from its config could not be measured: {error}"
    return (
        "a new model built from its config differs from posenc's reading of the config too"
        if differs
        else "only this model: a new one built from its config agrees with posenc's reading of the config"
    )


def _moves(model: LoadedModel, length: int) -> bool:
    """Return whether reversing the position ids of three tokens at the last positions changes the outputs."""
    ids = model.ids.draw(1, 3)
    at = torch.arange(length - 3, length, device=ids.device)[None]
    return not torch.equal(
        *(model.answers(ids, position_ids=order, attention_mask=torch.ones_like(ids)) for order in (at, at.flip(1)))
    )


@law(lambda model: "" if model.ids.takes_positions and _moves(model, 3) else "position ids change no outputs")
def reaches_the_length_of_its_config(model: LoadedModel) -> None:
    """The model runs at positions up to max_position_embeddings, and distinguishes them.

    Tables of cos and sin, and learned tables, must have max_position_embeddings rows.
    """
    try:
        owed(_moves(model, model.ids.longest), f"the last 3 of {model.ids.longest} positions give equal outputs")
    except (IndexError, RuntimeError) as error:
        raise Broken(f"at position {model.ids.longest - 1}: {error}") from error


@law()
def holds_the_buffers_that_its_code_makes(model: LoadedModel) -> None:
    """Non-persistent buffers and attention factors equal what their module's class computes from the config.

    After building a model on meta or under FSDP, rebuild buffers with ``module.__init__(config)``, or load the
    model with from_pretrained.
    """
    for where, got, want in _remade(model):
        near(got, want, want.abs() / 100, where)


@law()
def rounds_no_frequency_to_16_bits(model: LoadedModel) -> None:
    """In a model with 16-bit weights, frequencies and angles are in float32 until cos and sin are computed.

    Cast only parameters, or load with from_pretrained(dtype=…), instead of calling model.to(…) or half(). Multiply
    positions and frequencies in float32, and cast cos and sin afterwards.
    """
    for where, got, want in _remade(model):
        # a larger error, which other laws report, is not from rounding to bfloat16 or float16
        if got.shape == want.shape and bool(((got - want).abs() <= want.abs() * 2**-8 + 2**-24).all()):
            near(got, want, want.abs() * 2**-20, where)
    calls: list[Any] = []
    at = {"position_ids": torch.arange(model.ids.longest - 3, model.ids.longest, device=model.ids.device)[None]}
    with register_module_forward_hook(lambda *call: calls.append(call), with_kwargs=True):
        model.output(model.ids.draw(1, 3), loaded=True, **at if model.ids.takes_positions else {})
    for module, given, named, output in calls:
        if "position_ids" in inspect.signature(module.forward).parameters and not [*module.parameters()]:
            upcast = [x.float() if getattr(x, "dtype", None) in NARROW else x for x in given]
            for got, want in zip(output, module.forward(*upcast, **named), strict=True):
                near(got, want, 2 * torch.finfo(got.dtype).eps, f"{type(module).__name__} in {got.dtype}")


def _remade(model: LoadedModel) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Yield the name, value and recomputed value of each buffer and factor that is not in a checkpoint."""
    model.output(model.ids.draw(1, 3), loaded=True)  # resets frequencies that depend on the length
    for name, module in model.loaded.named_modules():
        if module._non_persistent_buffers_set and hasattr(module, "config"):
            try:
                made_again = type(module)(module.config)
            except Exception:  # a class may need more arguments than a config
                continue
            for key, want in {**vars(made_again), **made_again._buffers}.items():
                if isinstance(want, float) or (isinstance(want, Tensor) and want.is_floating_point()):
                    got = torch.as_tensor(getattr(module, key))
                    yield f"{name}.{key}", got.double().cpu(), torch.as_tensor(want).double()


LAWS = (
    reads_padded_texts_as_each_alone,
    reads_chunks_as_the_whole,
    generates_as_without_a_cache,
    reads_packed_texts_as_each_alone,
    sees_across_positions_that_stand_still,
    does_what_its_config_says,
    reaches_the_length_of_its_config,
    holds_the_buffers_that_its_code_makes,
    rounds_no_frequency_to_16_bits,
)


def check(model: Any, tokenizer: Any = None, *, packed: bool = True) -> Report:
    """Check the positional encoding of a loaded model: ``print(huggingface.check(model, tokenizer))``.

    The model reads a few dozen short texts: padded and alone, in chunks and in full, packed and alone. It also
    generates tokens with and without a cache. The model's positional encoding is measured and compared with the
    config, the model runs at the config's last position, and buffers that are not in a checkpoint are recomputed.
    A check of a model with 135 million parameters takes ten seconds on two CPU cores. The model and the random
    state do not change. 16-bit weights are checked in a float32 copy if memory allows.

    Args:
        model: a loaded transformers model that takes token ids, on any device; its code may be remote code.
        tokenizer: the tokenizer that you use, which pads the texts. By default, texts are random tokens, padded on
            the left, or on the right if the model is not causal.
        packed: pass False if you never pack texts into one row; some models do not separate packed texts.

    Returns:
        A verdict on every law, with the fix for each broken law; ``ok`` is True if no law is broken and no
        test ended in an error.

    Raises:
        InvalidArgument: the model does not take token ids.
    """
    if not isinstance(model, nn.Module):
        raise InvalidArgument(f"model is a {type(model).__name__}; load it first: AutoModel….from_pretrained(…)")
    with unchanged(model):
        subject = LoadedModel(model, tokenizer, packed)
        return Report(type(model).__name__, tuple(verdict(asked, subject) for asked in LAWS))
