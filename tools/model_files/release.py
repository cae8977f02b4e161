"""A released program: some of its files are imported under their own names, and everything else is a stub."""

import ast
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import re
import sys
import types
from pathlib import Path

import torch
from tools.model_files.stand_ins import Anything, Part

ROWS = 32768
"""The number of rows of cos and sin tables to compute; programs compute up to ten million rows."""
FILLED = {
    "bias": False,
    "conv_dim": 64,
    "conv_dim_out": 64,
    "encoder_only": False,
    "first_k_dense_replace": 0,
    "full_attention_interval": 4,
    "in_chans": 3,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-5,
    "moe_intermediate_size": 1024,
    "moe_layer_freq": 1,
    "n_shared_experts": 1,
    "pad_token_id": 0,
    "rms_norm_eps": 1e-6,
    "route_norm": True,
    "router_scaling_factor": 1.0,
    "scoring_func": "sigmoid",
    "tie_word_embeddings": False,
    "topk_method": "noaux_tc",
    "use_cache": True,
}
"""Keys that model classes need and published configs omit, and that do not affect positions."""
SMALL = {"pad_token_id": 0, "vocab_size": 4096, "vocab_size_per_layer_input": 4096}
"""The upper bounds of keys that make token tables large."""


class StandIn(types.ModuleType):
    """A stub module: its names are imported from the release or replaced by stubs."""

    release = None
    __version__ = "0.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        whole, release = f"{self.__name__}.{name}", StandIn.release
        value = importlib.import_module(whole) if release.asks(whole) else release.stands_for(self.__name__, name)
        setattr(self, name, value)
        return value


class Loader(importlib.abc.Loader):
    """Creates stub modules."""

    def create_module(self, spec):
        module = StandIn(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        return None


class Finder(importlib.abc.MetaPathFinder):
    """Finds the program's modules in its folder, or creates stubs for them and for packages that only they need."""

    def __init__(self, release, missing):
        self.release, self.missing, self.stood_in = release, missing, {"torchvision"}

    def find_spec(self, name, path=None, target=None):
        root = name.partition(".")[0]
        if root == self.release.package:
            if self.missing:
                return None
            if not self.release.asks(name):
                return importlib.machinery.ModuleSpec(name, Loader(), is_package=True)
            file = self.release.file(name)
            inside = [str(file.parent)] if file.name == "__init__.py" else None
            return importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
        if self.missing and (root in self.stood_in or self.imported_by_the_program()):
            self.stood_in.add(root)
            return importlib.machinery.ModuleSpec(name, Loader(), is_package=True)
        return None

    def imported_by_the_program(self):
        frame = sys._getframe(2)
        while frame and "importlib" in frame.f_code.co_filename:
            frame = frame.f_back
        return frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == self.release.package


class Attention(Part):
    """An attention layer that records its constructor's arguments, by their released names, and its inputs."""

    released = ""

    def __init__(self, *args, **kwargs):
        super().__init__()
        release = StandIn.release
        names = release.arguments_of(type(self).__name__, self.released)
        self.__dict__["made"] = made = {**dict(zip(names, args, strict=False)), **kwargs}
        self.__dict__["given"], self.__dict__["named"] = [], {}
        for name in ("num_heads", "head_size", "head_dim", "num_kv_heads", "scale", "scaling", "kv_lora_rank"):
            if name in made:
                self.__dict__[name] = made[name]
        self.__dict__["layer_name"] = str(made.get("prefix", ""))
        release.attentions.append(self)

    def forward(self, *args, **kwargs):
        self.__dict__["given"] = [value for value in (*args, *kwargs.values()) if torch.is_tensor(value)]
        self.__dict__["named"] = kwargs
        first, made = self.given[0], self.made
        width = made.get("v_head_dim") or made.get("head_size_v")
        if width and made.get("num_heads"):
            return torch.zeros(first.shape[0], made["num_heads"] * width)
        return torch.zeros_like(first.reshape(first.shape[0], -1))


class Short:
    """A proxy of torch for rotary files, which limits tables to ``ROWS`` rows."""

    def __getattr__(self, name):
        return getattr(torch, name)

    def arange(self, *args, **kwargs):
        if len(args) == 1 and args[0] > ROWS and str(kwargs.get("dtype")).startswith("torch.float"):
            args = (ROWS,)
        return torch.arange(*args, **kwargs)


class Release:
    """A release of a program, one per process.

    Subclasses define ``package``; ``rotary``, the package of its rotary files; ``asked``, prefixes of the names of
    real modules, and ``not_asked``, patterns of exceptions among them; ``stands_for(module, name)``;
    ``build(config)``; and ``made_with(attention)``.
    """

    package, rotary, asked, not_asked = "", "", (), ()

    def __init__(self, root):
        self.root = Path(root)

    def file(self, name):
        path = self.root.joinpath(*name.split("."))
        return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)

    def asks(self, name):
        """Return whether to import the released module instead of a stub."""
        within = any(f"{name}.".startswith(f"{start}.") for start in self.asked)
        return within and not any(re.fullmatch(one, name) for one in self.not_asked) and self.file(name) is not None

    def start(self):
        """Install this release under the program's name."""
        torch.set_num_threads(1)
        importlib.import_module("transformers.models.auto.modeling_auto")
        importlib.import_module("transformers.utils").is_torchvision_available()  # cached before it is stubbed
        for name in dir(torch.nn.init):  # the weights do not matter, and drawing them takes minutes
            if name.endswith("_") and not name.startswith("_"):
                setattr(torch.nn.init, name, lambda tensor, *_, **__: tensor)
        torch.Tensor.normal_ = torch.Tensor.uniform_ = lambda tensor, *_, **__: tensor
        StandIn.release = self
        for name in ("Stream", "Event", "stream", "current_stream", "graph_pool_handle"):
            setattr(torch.cuda, name, Anything(f"cuda.{name}"))
        sys.modules[self.package] = Loader().create_module(types.SimpleNamespace(name=self.package))
        sys.meta_path.insert(0, Finder(self, missing=False))
        sys.meta_path.append(Finder(self, missing=True))
        self.watch_rotary_layers()

    def watch_rotary_layers(self):
        """Record every rotary layer that is built, the line that built it, and its calls."""
        released = importlib.import_module(self.rotary).get_rope

        @functools.wraps(released)
        def get_rope(*args, **kwargs):
            rope, frame = released(*args, **kwargs), sys._getframe(1)
            if rope not in self.ropes:
                rope.register_forward_hook(lambda module, *_: self.calls.append(module))
            self.ropes[rope] = self.line(frame.f_code.co_filename, frame.f_lineno)
            return rope

        for name, module in list(sys.modules.items()):
            if name.startswith(self.rotary):
                if "torch" in vars(module):
                    module.torch = Short()
                if vars(module).get("get_rope") is released:
                    module.get_rope = get_rope

    def line(self, file, number):
        """Return a place in the released files, as ``file:line``."""
        path = Path(file)
        return f"{path.relative_to(self.root) if path.is_relative_to(self.root) else path.name}:{number}"

    def attention_class(self, name, module):
        return type(name, (Attention,), {"released": module})

    @functools.cache  # noqa: B019
    def released(self, module, *names):
        """Return classes and functions with these names, parsed from a file or a folder without importing it."""
        folder = self.root.joinpath(*module.split("."))
        files = [file for file in (*folder.rglob("*.py"), folder.with_suffix(".py")) if file.is_file()]
        texts = [text for file in files if any(name in (text := file.read_text("utf-8-sig")) for name in names)]
        return [node for text in texts for node in ast.parse(text).body if getattr(node, "name", "") in names]

    def arguments_of(self, name, module):
        """Return the names of a released class's arguments, parsed from its file."""
        bodies = [field for node in self.released(module, name) for field in node.body]
        makers = [field for field in bodies if getattr(field, "name", "") == "__init__"]
        return [argument.arg for argument in makers[0].args.args][1:] if makers else []

    def function(self, module, *names, **globals_of):
        """Compile functions of a file without importing the file, and return the first function."""
        future = ast.ImportFrom("__future__", [ast.alias("annotations")], 0)
        tree = ast.Module([future, *self.released(module, *names)], [])
        exec(compile(ast.fix_missing_locations(tree), module, "exec"), globals_of)
        return globals_of[names[0]]

    def defaults(self, module, name):
        """Return the literal defaults of a released settings class, and a stub for each method."""
        fields = [field for node in self.released(module, name) for field in node.body]
        methods = [one for one in fields if isinstance(one, ast.FunctionDef) and not one.decorator_list]
        literal = [one for one in fields if isinstance(getattr(one, "value", None), ast.Constant)]
        stated = {one.target.id: one.value.value for one in literal if isinstance(one, ast.AnnAssign)}
        return {**{one.name: Anything(one.name) for one in methods}, **stated}

    def prepared(self, config):
        """Return the config object with the missing keys filled in and small token tables."""
        inner = [part for part in vars(config).values() if hasattr(part, "to_dict")]
        parts = {id(part): part for part in (config, config.get_text_config(), *inner)}.values()
        for part in parts:
            filled = {**FILLED, "hidden_act": getattr(part, "hidden_activation", None) or "silu"}
            for name, value in filled.items():
                if getattr(part, name, None) is None:
                    self.put(part, name, value)
            for name, most in SMALL.items():
                if (getattr(part, name, 0) or 0) > most:
                    self.put(part, name, most)
        self.text = config.get_text_config()
        return config

    def put(self, part, name, value):
        try:
            setattr(part, name, value)
        except Exception:  # the class validates its attributes
            part.__dict__[name] = value

    def register(self, model_type, known):
        """Register a plain config class for a model type whose class is code on the Hub."""
        from transformers import AutoConfig, PreTrainedConfig
        from transformers.models.auto.configuration_auto import CONFIG_MAPPING

        if model_type not in CONFIG_MAPPING and model_type not in known:

            def as_they_stand(self, **given):
                PreTrainedConfig.__init__(self, **given)
                self.__dict__.update({key: value for key, value in given.items() if key != "text_config"})

            own = {"model_type": model_type, "__init__": as_they_stand}
            AutoConfig.register(model_type, type("Plain", (PreTrainedConfig,), own))

    def source(self, owner, words):
        """Return the first line of a class that matches ``words``."""
        lines, first = inspect.getsourcelines(owner)
        found = (number for number, line in enumerate(lines, first) if re.search(words, line))
        return self.line(inspect.getsourcefile(owner), next(found, first))

    def name_of(self, cls):
        return f"{self.source(cls, 'class ')} {cls.__name__}"

    def fresh(self):
        """Forget the layers of the last model."""
        self.attentions, self.ropes, self.calls = [], {}, []
        vars(sys.modules[self.rotary]).get("_ROPE_DICT", {}).clear()
