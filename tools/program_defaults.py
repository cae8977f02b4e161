"""Write ``programs/defaults.json``: the base, rotary share and length that programs assume if a config has none.

    python tools/program_defaults.py              # transformers 5, the installed one, and mlx-lm in build/programs
    PYTHONPATH=FOLDER:src python tools/program_defaults.py    # transformers 4, installed in FOLDER

The file has one line per program and family; ``rope_scaling`` and ``rope_parameters`` say whether a release of
mlx-lm reads these keys. ``sliding_window`` says whether a model file of mlx-lm or ExLlamaV3 has the key of windows.
"""

import ast
import json
from pathlib import Path
from typing import Any

from posenc.integrations.huggingface.families import FAMILIES, READ_AS
from posenc.integrations.huggingface.family import Family
from posenc.integrations.huggingface.keys import BOTH_FORMS
from posenc.integrations.programs import exllamav3, mlx

ALL = FAMILIES | {name: FAMILIES[other] for name, other in READ_AS.items()}
EXLLAMAV3 = (
    "apertus",
    "arcee",
    "cohere",
    "ernie4_5",
    "ernie4_5_moe",
    "gemma2",
    "glm4",
    "hyperclovax",
    "llama",
    "mistral",
    "mixtral",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "smollm3",
)
"""The families whose file is llama's, or only calls read_rope_settings_default with the family's pairs."""
UNSCALED = ("cohere", "cohere2", "gemma", "gemma2", "glm4", "mixtral", "qwen2_moe", "qwen3_moe", "starcoder2")
"""The families whose file in mlx-lm only calls nn.RoPE with the base, so that it reads no scaling."""
RENAMED = {"gemma3_text": ("rope_theta", "rope_global_base_freq")}
"""The key of a family, and another key that mlx-lm 0.28.4 reads instead, in a file that only calls nn.RoPE."""
ROOT = Path(__file__).parents[1]
TABLE = ROOT / "src" / "posenc" / "integrations" / "programs" / "defaults.json"
NEAR = {
    "deepseek_v4": "rope_theta",
    "gemma3_text": "rope_local_base_freq",
    "mimo_v2_flash": "swa_rope_theta",
    **dict.fromkeys(("modernbert", "modernbert-decoder", "ultrabert"), "local_rope_theta"),
}
"""The older key for the base of sliding-window layers, by family."""


def keys_of(name: str, family: Family) -> list[str]:
    return [key for key in (family.base, family.partial, family.length, NEAR.get(name)) if key]


def of_transformers() -> dict[str, dict[str, Any]]:
    """Return defaults by family, from the config classes of the imported transformers."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    table = {}
    for name, family in ALL.items():
        if name not in CONFIG_MAPPING or family.kind != "rotary" or family.fixed_base is not None:
            continue
        try:
            config = CONFIG_MAPPING[name]()
        except Exception:  # the class cannot be built without arguments
            continue
        defaults = {key: getattr(config, key, None) for key in keys_of(name, family)}
        rope = getattr(config, "rope_parameters", None) or {}
        full = rope.get("full_attention", rope) or {}
        defaults.setdefault(family.base, None)
        defaults[family.base] = defaults[family.base] or full.get("rope_theta")
        if family.partial:
            defaults[family.partial] = defaults[family.partial] or full.get("partial_rotary_factor")
        if name in NEAR:
            near = rope.get("sliding_attention") or {}
            defaults[NEAR[name]] = defaults[NEAR[name]] or near.get("rope_theta")
        table[name] = {key: value for key, value in defaults.items() if type(value) in (int, float)}
    return table


def of_mlx(folder: Path) -> dict[str, dict[str, Any]]:
    """Return defaults by family, from the fields of ModelArgs in every model file of this folder."""
    (renamed,) = [
        ast.literal_eval(node.value)
        for node in ast.parse((folder / "mlx_lm" / "utils.py").read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODEL_REMAPPING"
    ]
    table = {}
    for name, family in ALL.items():
        file = folder / "mlx_lm" / "models" / f"{renamed.get(name, name)}.py"
        plain = name in (*UNSCALED, *RENAMED)
        if not file.exists() or ("rope_utils" not in (text := file.read_text()) and not plain):
            continue
        classes = [n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == "ModelArgs"]
        fields = {
            ast.unparse(node.target): node.value
            for node in (classes[0].body if classes else [])
            if isinstance(node, ast.AnnAssign)
        }
        key, other = RENAMED.get(name, ("", ""))
        fields |= {key: fields[other]} if other in fields else {}
        if not {family.base, "rope_parameters"} & set(fields):
            continue
        constants = {
            key: ast.literal_eval(value) for key, value in fields.items() if isinstance(value, ast.Constant)
        }
        heads = {"head_dim": "head_dim" in fields} if family.head_dim == "head_dim" else {}
        table[name] = {
            **heads,
            **{key: constants[key] for key in (*keys_of(name, family), *heads) if constants.get(key) is not None},
            **{form: form in fields and name not in UNSCALED for form in BOTH_FORMS},
            "sliding_window": "sliding_window" in text,
        }
    return table


def of_exllamav3() -> dict[str, dict[str, Any]]:
    """Return the default base by family, and whether a release's model file reads the key of windows."""
    folders = [
        ROOT / "build" / "programs" / f"exllamav3-{version}" for version in exllamav3.PROGRAM.releases.versions
    ]
    files = {
        name: [folder / "exllamav3" / "architecture" / f"{name}.py" for folder in folders] for name in EXLLAMAV3
    }
    return {
        name: {
            "rope_theta": 10000.0,
            **{key: 1.0 for key in [ALL[name].partial] if key},
            "sliding_window": any("sliding_window" in file.read_text() for file in files[name]),
        }
        for name in EXLLAMAV3
    }


def asked() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the tables of the installed programs."""
    import transformers

    folders = {f"mlx-lm {version}": f"mlx-lm-{version}" for version in mlx.PROGRAM.releases.versions}
    return {
        "llama_cpp": {
            name: {"rope_theta": 10000.0} for name in ("llama", "mistral")
        },  # both have the same architecture
        "exllamav3": of_exllamav3(),
        "transformers" + transformers.__version__[0]: of_transformers(),
        **{release: of_mlx(ROOT / "build" / "programs" / folder) for release, folder in folders.items()},
    }


def main() -> None:
    kept, now = json.loads(TABLE.read_text()), asked()
    every = {name: now.get(name, kept.get(name)) for name in ("transformers4", "transformers5", *now)}
    lines = [
        f"{json.dumps(program)}: {{\n"
        + ",\n".join(f"{json.dumps(name)}: {json.dumps(table[name])}" for name in sorted(table))
        + "\n}"
        for program, table in sorted(every.items())
    ]
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
