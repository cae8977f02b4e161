"""A GGUF file written anew: its metadata and tokenizer, with other weights and positions.

transformers loads the tensors of a GGUF file under other names, some with their rows in another order. Which order
is read off the weights themselves: the one by which a tensor of the file is the loaded one, bit for bit.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from posenc.errors import InvalidArgument, StudyError
from posenc.integrations.programs.llama_cpp import Fields

CONVERTER = "convert the folder with llama.cpp's convert_hf_to_gguf.py"


def rewritten(
    source: Path, target: Path, loaded: Mapping[str, Tensor], weights: Mapping[str, Tensor], fields: Fields
) -> None:
    """``source`` as ``target`` with these weights and fields: matrices in their own type, the rest in float32.

    Args:
        loaded: the weights as transformers loaded them from ``source``.
        weights: those to write, by the same names.

    Raises:
        InvalidArgument: a tensor that was loaded in a way that is not known here, such as stacked experts.
        StudyError: the file cannot be written.
    """
    import gguf

    file = gguf.GGUFReader(source)
    architecture = file.fields["general.architecture"].contents()
    kind = next(kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == architecture)
    names = gguf.get_tensor_name_map(kind, file.fields[f"{architecture}.block_count"].contents())
    ours = {names.get_name(name, try_suffixes=(".weight", ".bias")): name for name in loaded}
    heads = [
        file.fields[key].contents() for key in file.fields if key.startswith(f"{architecture}.attention.head_count")
    ]
    narrow = any(tensor.dtype == torch.bfloat16 for tensor in weights.values())
    writer = gguf.GGUFWriter(target, architecture)
    for key, entry in file.fields.items():
        replaced = key in fields.values or key.startswith((f"{architecture}.rope.scaling.", "GGUF."))
        if not replaced and key not in ("general.architecture", "general.file_type"):
            writer.add_key_value(
                key, entry.contents(), entry.types[0], entry.types[-1] if len(entry.types) > 1 else None
            )
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_BF16 if narrow else gguf.LlamaFileType.ALL_F32)
    fields.add_to(writer)
    for one in file.tensors:
        if one.name.startswith("rope_"):  # those of the fields stand in their place
            continue
        if one.name not in ours:
            raise InvalidArgument(f"{one.name} of {source.name} is no tensor that transformers names; {CONVERTER}")
        name = ours[one.name]
        before = torch.tensor(gguf.dequantize(one.data, one.tensor_type))
        rows, shift = _order(one.name, before, loaded[name], heads)
        tensor = torch.empty_like(before)
        tensor[rows] = weights[name].float() - shift
        data, packed = tensor.numpy(), gguf.GGMLQuantizationType.BF16
        if narrow and tensor.ndim > 1:
            writer.add_tensor(one.name, gguf.quantize(data, packed), raw_dtype=packed)
        else:
            writer.add_tensor(one.name, data)
    try:
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    except OSError as error:
        raise StudyError(f"{str(target)!r} cannot be written: {error.strerror}; choose another --output") from error
    finally:
        writer.close()


def _order(name: str, before: Tensor, loaded: Tensor, heads: list[Any]) -> tuple[Int[Tensor, " rows"], float]:
    """The rows of a file's tensor in the order in which they were loaded, and what was added to them."""
    n = len(before)
    orders = [torch.arange(n), *(_in_halves(n, h) for h in heads if isinstance(h, int) and n % (2 * h) == 0)]
    for rows in orders:
        for shift in (0.0, -1.0):  # Gemma's norms are kept around 0 by transformers, around 1 in files
            if before.shape == loaded.shape and torch.equal((before[rows] + shift).to(loaded.dtype), loaded.cpu()):
                return rows, shift
    raise InvalidArgument(f"{name} was loaded in a way that is not known here; {CONVERTER}")


def _in_halves(n: int, heads: int) -> Int[Tensor, " n"]:
    """Rows of ``heads`` heads whose pairs are neighbours, as rows whose pairs stand in two halves."""
    return torch.arange(n).view(heads, -1, 2).transpose(1, 2).flatten()
