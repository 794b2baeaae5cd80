"""`make demo`: from text that every machine has, the Python standard library's own sources, to a model."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import yaml

FOLDER = Path("demo")
MEMORY = "900MB"
PROMPT = "def read("


def standard_library() -> list[dict[str, str]]:
    """The library's own modules and packages, without what was installed beside them."""
    home = Path(sysconfig.get_path("stdlib"))
    packages = sorted(
        path
        for path in home.iterdir()
        if path.is_dir() and path.name not in ("site-packages", "dist-packages")
    )
    globs = [home / "*.py", *(path / "**" / "*.py" for path in packages if any(path.rglob("*.py")))]
    return [{"path": str(glob)} for glob in globs]


def config() -> dict[str, object]:
    """What the demo asks for: a model that a laptop trains in about a minute."""
    return {
        "memory": MEMORY,
        "datasets": standard_library(),
        "tokenizer": {"path": str(FOLDER / "tokenizer"), "vocab_size": 4096},
        "preprocess": {"prepared_path": str(FOLDER / "dataset"), "sequence_len": 128},
        "train": {
            "output_dir": str(FOLDER / "model"),
            "target_params": 1_000_000,
            "max_steps": 120,
            "learning_rate": 0.003,
            "log_every": 20,
        },
    }


def save_untrained() -> Path:
    """The model as it was before its first step."""
    from krill.model.transformer import init_transformer
    from krill.training.saved_model import open_model, save_model

    trained = open_model(FOLDER / "model")
    folder = FOLDER / "untrained"
    model = init_transformer(trained.shape, seed=42)
    save_model(folder, model, context=trained.context, tokenizer=FOLDER / "tokenizer")
    return folder


def krill(*arguments: str, say: str = "") -> None:
    """A command as a user would type it."""
    print(f"\n$ krill {' '.join(arguments)}{say and f'    # {say}'}", flush=True)
    code = subprocess.call([str(Path(sys.executable).with_name("krill")), *arguments])
    if code:
        sys.exit(code)


def main() -> None:
    """Write a config and run it, then let the model speak, before and after its training."""
    FOLDER.mkdir(exist_ok=True)
    file = FOLDER / "config.yaml"
    file.write_text(
        "# Written by `make demo`; yours to change.\n" + yaml.safe_dump(config(), sort_keys=False)
    )
    steps = "a tokenizer, the dataset, a model, how good it is"
    krill("run", str(file), "--overwrite", say=f"{steps}; the budget is {MEMORY}")
    sample = ("--prompt", PROMPT, "--max-tokens", "80", "--seed", "1")
    krill("generate", str(save_untrained()), *sample, say="before training")
    krill("generate", str(FOLDER / "model"), *sample, say="after training")
    runs = [str(FOLDER / name) for name in ("dataset", "tokenizer", "model")]
    krill("report", *runs, "--output", str(FOLDER / "report.html"), say="a page to look at")


if __name__ == "__main__":
    main()
