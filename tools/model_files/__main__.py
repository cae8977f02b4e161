"""``python -m tools.model_files``: run every release, or one release on one config."""

import contextlib
import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import traceback
from pathlib import Path

from tools.model_files.configs import KEPT, ROOT, architectures, configs
from tools.model_files.layers import answer

from posenc.integrations.programs import sglang, vllm

PROGRAMS = ROOT / "build" / "programs"
ASKED_UNDER = {
    (program.package, version): pinned
    for program in (sglang.PROGRAM.releases, vllm.PROGRAM.releases)
    for version, pinned in zip(program.versions, program.under, strict=True)
}
TABLE = ROOT / "src" / "posenc" / "integrations" / "model_files.json"
LIMIT = 60
"""The limit of processor time per config in seconds, which does not depend on the machine's load."""
SAMPLED = 8
"""The stride at which frequencies are stored; the last frequency is also stored."""


def released(name, version):
    """Load the release, which takes over the process."""
    from tools.model_files.sglang import Sglang
    from tools.model_files.vllm import Vllm

    logging.disable(logging.WARNING)
    release = {"vllm": Vllm, "sglang": Sglang}[name](PROGRAMS / f"{name}-{version}")
    release.start()
    signal.signal(signal.SIGPROF, overdue)
    return release


def asked(release, config):
    """Return the result for a config, or the reason why there is no result."""
    config = {
        key: value for key, value in config.items() if not key.endswith(("quantization_config", "ssion_config"))
    }
    config["architectures"] = architectures(config, release.registry)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            found = answer(release, config)
        return kept(found) if found["layers"] else {"refused": "no attention was reached"}
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        places = [release.line(frame.filename, frame.lineno) for frame in frames]
        released = [place for place in places if place.startswith(f"{release.package}/")]
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        return {"refused": re.sub(r"/\S+/", "", why), "at": released[-1] if released else ""}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def overdue(*_):
    """Stop the run of one config."""
    raise TimeoutError(f"took more than {LIMIT} seconds of the processor")


def kept(found):
    """Return the result with a sample of the frequencies, without empty values."""
    layers = [
        {
            key: short(key, value)
            for key, value in facts.items()
            if value not in (None, [], {}, "") or key == "rotates"
        }
        for facts in found["layers"]
    ]
    return {**found, "layers": layers}


def short(key, value):
    """Round a float to eight digits, sample a list of frequencies, and return anything else unchanged."""
    if key == "frequencies":
        return [short("", theta) for theta in [*value[::SAMPLED], *value[-1:]]]
    return float(f"{value:.8g}") if isinstance(value, float) else value


def ask(name, version, names):
    """Run a release on these configs, or on all configs, and print one line of JSON per config."""
    release = released(name, version)
    for config, given in configs().items():
        if not names or config in names:
            print(json.dumps({"config": config, **asked(release, given)}), flush=True)


def process(name, version, names=()):
    """Run a release in a process with the release's transformers, and return the output."""
    folder = PROGRAMS / ASKED_UNDER[name, version].split()[0].replace("==", "-")
    path = os.pathsep.join([str(folder), str(ROOT / "src"), str(ROOT)])
    command = [sys.executable, "-m", "tools.model_files", name, version, *names]
    environment = {**os.environ, "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    return subprocess.run(
        command, env=environment, cwd=ROOT, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ).stdout


def main():
    if sys.argv[1:]:
        name, version, *names = sys.argv[1:]
        if names and Path(names[0]).is_file():
            config = json.loads(Path(names[0]).read_text())
            print(json.dumps(asked(released(name, version), config), indent=1))
        else:
            ask(name, version, names)
        return
    for name, version in ASKED_UNDER:
        (KEPT / f"{name}-{version}.jsonl").write_text(process(name, version))
    TABLE.write_text(json.dumps(table(), indent=1, sort_keys=True) + "\n")


def table():
    """Return the class that runs each model_type, by release."""
    given, found = configs(), {}
    for name, version in ASKED_UNDER:
        runs = found[f"{name} {version}"] = {}
        for line in map(json.loads, (KEPT / f"{name}-{version}.jsonl").open()):
            if "class" in line:
                runs[given[line["config"]]["model_type"]] = line["class"]
    return found


if __name__ == "__main__":
    main()
