"""Paths in a config are relative to the working directory: every key, every form, wherever the work runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel
from tokenizers import Tokenizer

import krill as package
import preloaded
from chat_jobs import conversations, json_rows, rows_of, write_tokenizer
from conftest import dataset_bytes
from fasttext_files import ModelFile
from jobs import document, json_lines
from krill.config import KrillConfig
from krill.config.fields import PathText

pytest_plugins = ["ray_fixtures"]

# How a user writes the place of something: in the working directory, beside it, in the home folder.
FORMS = {"x": "{}", "./x": "./{}", "../y/x": "../other/{}", "~/x": "~/other/{}"}

# Every key of the config that is a path, and who proves it below.
COVERED = {
    "spill_dir",
    "chat_template",
    "datasets.path",
    "tokenizer.path",
    "tokenizer.hub_id",
    "preprocess.prepared_path",
    "preprocess.dedup_cache_dir",
    "preprocess.dedup.against",
    "preprocess.filters.file",
    "datasets.paths_file",
    "preprocess.filters.domains",
    "preprocess.filters.hosts",
    "preprocess.filters.urls",
    "preprocess.filters.banned_words",
    "preprocess.filters.soft_words",
    "preprocess.filters.banned_subwords",
    "preprocess.filters.patterns_file",
    "preprocess.filters.suffixes",
    "preprocess.filters.remove",
    "preprocess.filters.model",
    "train.base_model",
    "train.output_dir",
}


def path_keys(annotation: Any, at: tuple[str, ...] = ()) -> Iterator[str]:
    """The keys below an annotation whose values are paths."""
    if annotation == PathText:
        yield ".".join(at)
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        for name, field in annotation.model_fields.items():
            whole = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
            yield from path_keys(whole, (*at, name))
    elif get_origin(annotation) in (tuple, Union, UnionType, Annotated):
        for inner in get_args(annotation):
            yield from path_keys(inner, at)


def test_every_key_that_is_a_path_is_among_those_that_are_tried_here() -> None:
    assert set(path_keys(KrillConfig)) == COVERED


class Home:
    """A home folder with two folders in it; commands run in one of them and find things in both."""

    def __init__(self, folder: Path) -> None:
        self.work, self.other = folder / "work", folder / "other"
        self.environment = {"HOME": str(folder)}
        for place in (self.work, self.other):
            place.mkdir()
            self._fill(place)

    def _fill(self, place: Path) -> None:
        (place / "old.jsonl").write_bytes(json_lines(map(document, range(10))))
        (place / "seen.jsonl").write_bytes(json_lines(map(document, range(10, 20))))
        (place / "input.jsonl").write_bytes(json_lines(map(document, range(40))))
        (place / "block.txt").write_text("document 3[0-4]\n")
        package.tokenizer.train([str(place / "input.jsonl")], vocab_size=300, output=place / "tokenizer")
        (place / "tokenizer" / "krill-run.json").unlink()  # not `krill run`'s to train again

    def config(self, form: str, name: str, **preprocess: Any) -> dict[str, Any]:
        """All paths in one form: documents 0-9 come from an earlier run, 10-19 from `against`, 30-34 are
        blocked."""
        return {
            "memory": "300MB",
            "threads": 1,
            "spill_dir": form.format("spill"),
            "datasets": [{"path": form.format("input.jsonl")}],
            "tokenizer": {"path": form.format("tokenizer")},
            "preprocess": {
                "prepared_path": form.format(name),
                "sequence_len": 32,
                "min_length": 10,
                "dedup": {"method": "exact", "against": [form.format("seen.jsonl")]},
                "dedup_cache_dir": form.format("cache/dedup"),
                "filters": [{"blocklist": {"file": form.format("block.txt")}}],
                **preprocess,
            },
        }

    def save(self, config: dict[str, Any], name: str) -> str:
        (self.work / name).write_text(yaml.safe_dump(config))
        return name

    def krill(self, *arguments: str, **environment: str) -> Any:
        return preloaded.run(arguments, cwd=self.work, env={**self.environment, **environment})

    def begin(self, form: str) -> None:
        """An earlier run, whose index the next one is to see."""
        earlier = self.config(form, "earlier", dedup="exact")
        earlier["datasets"] = [{"path": form.format("old.jsonl")}]
        done = self.krill("preprocess", self.save(earlier, "earlier.yaml"), "--quiet")
        assert done.code == 0, done.err

    def check(self, outcome: Any, place: Path, expected: dict[str, bytes]) -> None:
        assert outcome.code == 0, outcome.err
        found = json.loads((place / "out" / "krill-run.json").read_bytes())["documents"]
        assert (found["read"], found["kept"]) == (40, 15)
        assert found["dropped"] == {"duplicate": 20, "blocklisted": 5}
        assert dataset_bytes(place / "out") == expected
        assert len(list((place / "cache/dedup").glob("*.generation"))) == 2
        assert not list((place / "spill").iterdir())


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What absolute paths make."""
    home = Home(tmp_path_factory.mktemp("absolute"))
    form = f"{home.other}/{{}}"
    home.begin(form)
    outcome = home.krill("preprocess", home.save(home.config(form, "out"), "config.yaml"), "--quiet")
    content = dataset_bytes(home.other / "out")
    home.check(outcome, home.other, content)
    return content


def place_of(home: Home, form: str) -> Path:
    return home.work if form in ("{}", "./{}") else home.other


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_form_of_every_path_means_the_same(home: Home, form: str, expected: dict[str, bytes]) -> None:
    home.begin(form)
    outcome = home.krill("preprocess", home.save(home.config(form, "out"), "config.yaml"), "--quiet")
    home.check(outcome, place_of(home, form), expected)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_tokenizer_s_name_on_the_hub_may_be_a_path(
    home: Home, form: str, expected: dict[str, bytes]
) -> None:
    home.begin(form)
    config = home.config(form, "out") | {"tokenizer": {"hub_id": form.format("tokenizer")}}
    outcome = home.krill("preprocess", home.save(config, "config.yaml"), "--quiet", HF_HUB_OFFLINE="1")
    home.check(outcome, place_of(home, form), expected)


def flat(tree: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """The values of a config by their dotted names; lists of plain values and of filters stay whole."""
    if isinstance(tree, dict):
        for key, value in tree.items():
            yield from flat(value, f"{at}.{key}" if at else key)
    elif isinstance(tree, list) and at == "datasets":
        for number, value in enumerate(tree):
            yield from flat(value, f"{at}.{number}")
    else:
        yield at, tree


def by_set(home: Home, config: dict[str, Any]) -> Any:
    changes = [word for key, value in flat(config) for word in ("--set", f"{key}={json.dumps(value)}")]
    return home.krill("preprocess", home.save({}, "empty.yaml"), *changes, "--quiet")


def by_environment(home: Home, config: dict[str, Any]) -> Any:
    named = {f"KRILL_{key.replace('.', '__').upper()}": json.dumps(value) for key, value in flat(config)}
    return home.krill("preprocess", home.save({}, "empty.yaml"), "--quiet", **named)


def by_python(home: Home, config: dict[str, Any]) -> Any:
    program = f"import krill; krill.preprocess({config!r})"
    return preloaded.run([], script=program, cwd=home.work, env=home.environment)


def by_run(home: Home, config: dict[str, Any]) -> Any:
    return home.krill("run", home.save(config, "config.yaml"), "--quiet")


def by_config_elsewhere(home: Home, config: dict[str, Any]) -> Any:
    """The working directory counts, not the folder that the file is in."""
    return home.krill("preprocess", home.save(config, "../other/config.yaml"), "--quiet")


def by_tasks(home: Home, config: dict[str, Any]) -> Any:
    name = home.save(config, "config.yaml")
    assert home.krill("preprocess", name, "--task", "1/1", "--quiet").code == 0
    return home.krill("preprocess", name, "--task", "finish", "--quiet")


def by_datatrove(home: Home, config: dict[str, Any]) -> Any:
    config = {**config, "engine": {"name": "datatrove", "workers": 1}}
    return home.krill("preprocess", home.save(config, "config.yaml"), "--quiet")


WAYS = [by_set, by_environment, by_python, by_run, by_config_elsewhere, by_tasks, by_datatrove]


@pytest.mark.parametrize("way", WAYS)
def test_paths_mean_the_same_wherever_they_are_said_and_whoever_reads_them(
    home: Home, way: Callable[[Home, dict[str, Any]], Any], expected: dict[str, bytes]
) -> None:
    form = "./{}"
    home.begin(form)
    home.check(way(home, home.config(form, "out")), home.work, expected)


def test_workers_of_a_ray_cluster_find_them_too(
    home: Home, expected: dict[str, bytes], two_nodes: Any
) -> None:
    form = "../other/{}"
    home.begin(form)
    name = home.save(home.config(form, "out"), "config.yaml")
    outcome = home.krill("preprocess", name, "--engine", "ray", "--address", two_nodes.address, "--quiet")
    home.check(outcome, home.other, expected)


# Of each list one entry, and a URL that it drops.
URL_LISTS = {
    "domains": ("bad.co.uk", "http://www.bad.co.uk/"),
    "hosts": ("ads.example.org", "http://x.ads.example.org/"),
    "urls": ("http://example.org/page", "http://example.org/page"),
    "banned_words": ("casino", "http://example.org/casino/1"),
    "soft_words": ("one\ntwo", "http://example.org/one/two"),
    "banned_subwords": ("pokerroom", "http://example.org/poker-room"),
    "patterns_file": ("/tag/[0-9]+$", "http://example.org/tag/7"),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_lists_and_models_for_web_pages_are_found_in_every_form(home: Home, form: str) -> None:
    place = place_of(home, form)
    urls = [url for _, url in URL_LISTS.values()] + ["http://example.org/kept"]
    rows = [{"url": url, "text": f"{document(n)}\nShare this page\nkrill"} for n, url in enumerate(urls)]
    (place / "crawl").mkdir()
    (place / "crawl" / "some.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (place / "crawl" / "not-named.jsonl").write_text("not read")
    (place / "paths.txt").write_text("some.jsonl\n")
    for name, (entry, _) in URL_LISTS.items():
        (place / f"{name}.txt").write_text(f"{entry}\n")
    (place / "suffixes.dat").write_text("// ===BEGIN ICANN DOMAINS===\nuk\nco.uk\norg\n")
    (place / "remove.txt").write_text("Share this page\n")
    (place / "model.bin").write_bytes(ModelFile().bytes())
    lists = {name: form.format(f"{name}.txt") for name in URL_LISTS}
    path, model = form.format("crawl"), form.format("model.bin")
    config = home.config(form, "out", dedup="exact", output="text")
    config["datasets"] = [{"path": path, "paths_file": form.format("paths.txt"), "columns": ["url"]}]
    config["preprocess"]["filters"] = [
        {"url": {**lists, "suffixes": form.format("suffixes.dat")}},
        {"lines": {"remove": form.format("remove.txt")}},
        {"fasttext": {"model": model, "keep": {"hq": 0.0}}},
        {"language": {"model": model, "allow": ["hq", "lq", "é"], "min_score": 0.0}},
    ]
    outcome = home.krill("preprocess", home.save(config, "config.yaml"), "--quiet")
    assert outcome.code == 0, outcome.err
    found = json.loads((place / "out" / "krill-run.json").read_bytes())["documents"]
    assert (found["read"], found["kept"]) == (8, 1)
    dropped = {reason: count for reason, count in found["dropped"].items() if count}
    assert set(dropped.values()) == {1} and len(dropped) == len(URL_LISTS), dropped


def chat_config(home: Home, form: str) -> dict[str, Any]:
    """Conversations in a template that is in one of the two folders alone."""
    place = place_of(home, form)
    write_tokenizer(place / "model")
    (place / "chats.jsonl").write_bytes(json_rows(conversations(20)))
    (place / "own.jinja").write_text("{% for m in messages %}{{ '<|im_start|>' ~ m.content }}{% endfor %}")
    return {
        "memory": "300MB",
        "threads": 1,
        "datasets": [{"path": form.format("chats.jsonl"), "type": "chat_template"}],
        "tokenizer": {"path": form.format("model")},
        "chat_template": form.format("own.jinja"),
        "preprocess": {"prepared_path": form.format("out"), "sequence_len": 512, "packing": "none"},
    }


def check_own_template(home: Home, form: str, outcome: Any) -> None:
    assert outcome.code == 0, outcome.err
    place = place_of(home, form)
    library = Tokenizer.from_file(str(place / "model" / "tokenizer.json"))
    texts = ["".join(f"<|im_start|>{m['content']}" for m in chat) for chat in conversations(20)]
    found = [row["input_ids"] for row in rows_of(place / "out")]
    assert sorted(library.decode(ids, skip_special_tokens=False) for ids in found) == sorted({*texts})


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_chat_template_is_found_in_every_form(home: Home, form: str) -> None:
    name = home.save(chat_config(home, form), "config.yaml")
    check_own_template(home, form, home.krill("preprocess", name, "--quiet"))


@pytest.mark.parametrize("way", WAYS)
def test_a_chat_template_is_found_whoever_reads_the_config(
    home: Home, way: Callable[[Home, dict[str, Any]], Any]
) -> None:
    form = "../other/{}"
    check_own_template(home, form, way(home, chat_config(home, form)))


@pytest.mark.parametrize("dedup", [{"method": "bloom", "expected_documents": 1000}, {"method": "minhash"}])
def test_what_was_seen_before_is_found_by_every_method(home: Home, dedup: dict[str, Any]) -> None:
    against = {**dedup, "against": ["./seen.jsonl"]}
    config = home.config("./{}", "out", dedup=against, output="text")
    config["datasets"] = [{"path": "old.jsonl"}]
    first = home.krill("preprocess", home.save(config, "first.yaml"), "--quiet")
    # By their numbers alone do documents differ: all are near-duplicates of those of `against`.
    assert first.code == (3 if dedup["method"] == "minhash" else 0), first.err
    config["datasets"] = [{"path": "./old.jsonl"}, {"path": "./seen.jsonl"}]
    second = home.krill("preprocess", home.save(config, "second.yaml"), "--overwrite", "--quiet")
    assert second.code == 3, second.err
    assert "no document is left: 20 documents read; 20 duplicates" in second.err


@pytest.mark.parametrize("form", ["./{}", "~/other/{}"])
def test_a_model_and_its_checkpoints_go_where_the_config_says(home: Home, form: str) -> None:
    home.begin(form)
    config = home.config(form, "out") | {"memory": "1GB"}
    config["train"] = {
        "output_dir": form.format("model"),
        "target_params": 20000,
        "max_steps": 2,
        "save_every": 1,
        "batch_size": 2,
    }
    name = home.save(config, "config.yaml")
    assert home.krill("preprocess", name, "--quiet").code == 0
    outcome = home.krill("train", name, "--quiet")
    assert outcome.code == 0, outcome.err
    assert (place_of(home, form) / "model" / "model.safetensors").is_file()
    config["train"] = {
        "base_model": form.format("model"),
        "output_dir": form.format("tuned"),
        "max_steps": 1,
        "batch_size": 2,
    }
    outcome = home.krill("train", home.save(config, "config.yaml"), "--quiet")
    assert outcome.code == 0, outcome.err
    assert (place_of(home, form) / "tuned" / "model.safetensors").is_file()
