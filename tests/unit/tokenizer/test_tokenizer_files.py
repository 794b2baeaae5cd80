"""What is written opens elsewhere, reads back the same, and says what is wrong with it."""

import base64
import json
from dataclasses import replace
from functools import cache
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from krill.errors import ConfigError, InputError, StorageError
from krill.tokenizer.files import OPTIONS_KEY, check_rank_file, load_trained, save
from krill.tokenizer.options import TrainOptions
from krill.tokenizer.patterns import PATTERNS
from krill.tokenizer.presets import CHAT, preset_tokens, with_preset
from oracles.tokenizer import count_words, encode, train
from properties import tried
from real_text import real_texts

TEXTS = [text[:1500] for text in islice(real_texts(), 6)]
HOSTILE = "  two  spaces\r\n\ttab é 日本語 \U0001f990 it's <|endoftext|>\n\n\x00\x7f\u00ad end "
FILES = ["merges.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json"]


@cache
def make(**options):
    chosen = TrainOptions(**{"vocab_size": 330, **options})
    return train(count_words(TEXTS, chosen.pattern, chosen.special_tokens), chosen)


@pytest.fixture(scope="module")
def trained():
    return make(special_tokens=("<|endoftext|>", "<|pad|>"))


@pytest.fixture
def folder(trained, tmp_path):
    save(trained, tmp_path / "made" / "tokenizer")
    return tmp_path / "made" / "tokenizer"


def test_a_folder_is_made_with_the_four_files(trained, tmp_path):
    paths = save(trained, tmp_path / "made" / "tokenizer")
    assert sorted(path.name for path in paths) == FILES
    assert sorted(path.name for path in (tmp_path / "made" / "tokenizer").iterdir()) == FILES


def test_the_same_tokenizer_gives_the_same_bytes(trained, folder, tmp_path):
    save(trained, tmp_path / "again")
    for name in FILES:
        assert (folder / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


@pytest.mark.parametrize("pattern", ["gpt2", "llama3", PATTERNS["llama3"], r"\w+|\W"])
@pytest.mark.parametrize("tie_break", ["huggingface", "greatest"])
def test_what_was_saved_is_read_back(tmp_path, pattern, tie_break):
    trained = make(pattern=pattern, tie_break=tie_break, min_frequency=2, max_token_length=9)
    save(trained, tmp_path)
    assert load_trained(tmp_path) == trained
    assert load_trained(tmp_path / "tokenizer.json") == trained


def test_a_tokenizer_json_alone_tells_all_but_the_options_of_the_training(trained, folder, tmp_path):
    (folder / "tokenizer.json").rename(tmp_path / "alone.json")
    alone = load_trained(tmp_path / "alone.json")
    assert alone == replace(trained, options=alone.options)
    assert (alone.options.pattern, alone.options.vocab_size) == ("gpt2", 330)
    assert alone.options.special_tokens == ("<|endoftext|>", "<|pad|>")


def test_options_of_another_tokenizer_beside_it_are_not_taken_for_its_own(trained, folder):
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config[OPTIONS_KEY]["special_tokens"] = ["<other>"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    assert load_trained(folder).options.special_tokens == ("<|endoftext|>", "<|pad|>")


def test_hugging_face_reads_it_and_would_write_the_same(trained, folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert json.loads(tokenizer.to_str()) == json.loads((folder / "tokenizer.json").read_text())
    assert json.loads((folder / "vocab.json").read_text()) == tokenizer.get_vocab()
    ids = tokenizer.encode(HOSTILE).ids
    assert ids == encode(trained, HOSTILE)
    assert tokenizer.decode(ids, skip_special_tokens=False) == HOSTILE


def test_hugging_face_reads_the_older_pair_of_files_too(trained, folder):
    from tokenizers.models import BPE

    model = BPE.from_file(str(folder / "vocab.json"), str(folder / "merges.txt"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.model = model
    assert tokenizer.encode(HOSTILE).ids == encode(trained, HOSTILE)


@tried(60)
@given(
    words=st.dictionaries(
        st.text("abé \n", min_size=1, max_size=8), st.integers(1, 5), min_size=1, max_size=8
    ),
    special_tokens=st.sampled_from([(), ("<s>",), ("a",), ("ab", "Ġ")]),
    limit=st.sampled_from([None, 3]),
    text=st.text("abé \n<s>", max_size=30),
)
def test_ids_equal_hugging_faces_also_where_special_tokens_are_letters(
    tmp_path_factory, words, special_tokens, limit, text
):
    options = TrainOptions(
        vocab_size=30, special_tokens=special_tokens, initial_alphabet="seen", limit_alphabet=limit
    )
    trained = train({word.encode(): count for word, count in words.items()}, options)
    folder = tmp_path_factory.mktemp("tokenizer")
    save(trained, folder)
    assert load_trained(folder) == trained
    assert Tokenizer.from_file(str(folder / "tokenizer.json")).encode(text).ids == encode(trained, text)


def test_transformers_opens_the_folder(trained, folder):
    transformers = pytest.importorskip("transformers")
    for opener in (transformers.PreTrainedTokenizerFast, transformers.AutoTokenizer):
        tokenizer = opener.from_pretrained(str(folder))
        assert tokenizer.eos_token == "<|endoftext|>"
        assert tokenizer.eos_token_id == 0
        assert len(tokenizer) == 330
        ids = tokenizer(HOSTILE)["input_ids"]
        assert ids == encode(trained, HOSTILE)
        assert tokenizer.decode(ids) == HOSTILE
        assert "<|endoftext|>" not in tokenizer.decode(ids, skip_special_tokens=True)


def test_what_transformers_saves_again_still_is_the_same_tokenizer(trained, folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    transformers.AutoTokenizer.from_pretrained(str(folder)).save_pretrained(str(tmp_path / "resaved"))
    assert load_trained(tmp_path / "resaved") == trained


def test_end_of_text_is_the_first_known_name_among_the_special_tokens(tmp_path):
    def declared(*special):
        save(make(special_tokens=special), tmp_path)
        return json.loads((tmp_path / "tokenizer_config.json").read_text()).get("eos_token")

    assert declared("<pad>", "</s>", "<|end_of_text|>") == "<|end_of_text|>"
    assert declared("<pad>") is None


def test_the_rank_file_has_a_line_for_each_token_that_is_not_special(trained, tmp_path):
    save(trained, tmp_path, tiktoken=True)
    lines = (tmp_path / "tokenizer.tiktoken").read_bytes().splitlines()
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, lines)}
    assert ranks == {token: rank for rank, token in enumerate(trained.tokens) if rank >= 2}


@pytest.mark.parametrize("tie_break", ["huggingface", "greatest"])
def test_joining_by_the_rank_file_alone_gives_the_same_ids(tmp_path, tie_break):
    trained = make(tie_break=tie_break, pattern=r"\S+|\s+")
    ranks = {token: rank for rank, token in enumerate(trained.tokens) if rank >= trained.special}
    for word in count_words(TEXTS, r"\S+|\s+"):
        parts = [bytes([byte]) for byte in word]
        while len(parts) > 1:
            best, at = min((ranks.get(parts[i] + parts[i + 1], 10**9), i) for i in range(len(parts) - 1))
            if best == 10**9:
                break
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
        if word in ranks:  # tiktoken takes a whole word that is a token without looking inside
            assert parts == [word]
        text = word.decode("utf-8")
        assert [ranks[part] for part in parts] == encode(trained, text)


def test_tiktoken_gives_the_same_ids(trained, tmp_path):
    tiktoken = pytest.importorskip("tiktoken")
    read_ranks = pytest.importorskip("tiktoken.load").load_tiktoken_bpe
    save(trained, tmp_path, tiktoken=True)
    encoding = tiktoken.Encoding(
        "krill",
        pat_str=PATTERNS["gpt2"],
        mergeable_ranks=read_ranks(str(tmp_path / "tokenizer.tiktoken")),
        special_tokens={"<|endoftext|>": 0, "<|pad|>": 1},
        explicit_n_vocab=330,
    )
    assert encoding.encode(HOSTILE, allowed_special="all") == encode(trained, HOSTILE)


def test_a_rank_file_without_all_bytes_is_refused_before_and_after(tmp_path):
    options = TrainOptions(vocab_size=330, initial_alphabet="seen")
    with pytest.raises(ConfigError, match="needs all 256 bytes"):
        check_rank_file(options)
    with pytest.raises(ConfigError, match="needs all 256 bytes"):
        check_rank_file(replace(options, initial_alphabet="bytes", limit_alphabet=255))
    with pytest.raises(ConfigError, match="needs all 256 bytes"):
        save(train({b"ab": 1}, options), tmp_path, tiktoken=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("special", ["a", "th"])
def test_a_rank_file_cannot_say_that_a_special_token_is_a_learnt_one(tmp_path, special):
    options = TrainOptions(special_tokens=("<s>", special), vocab_size=400, boundaries="lines")
    trained = train(count_words(TEXTS, "gpt2"), options)
    with pytest.raises(ConfigError, match=f"special token `{special}` is a learnt token too"):
        save(trained, tmp_path, tiktoken=True)


def test_two_tokens_of_one_spelling_are_refused(tmp_path):
    trained = train({b"ab": 1}, TrainOptions(vocab_size=300, special_tokens=("ab",), tie_break="greatest"))
    with pytest.raises(ConfigError, match="special token `ab` is spelt like the learnt token 257"):
        save(trained, tmp_path)


def test_the_chat_preset_brings_a_template_that_renders(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("jinja2")
    save(make(special_tokens=preset_tokens("chat")), tmp_path, chat=True)
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    messages = [
        {"role": "user", "content": "2 + 2?"},
        {
            "role": "assistant",
            "content": "Let me see.",
            "tool_calls": [{"type": "function", "function": {"name": "add", "arguments": {"a": 2, "b": 2}}}],
        },
        {"role": "tool", "content": "4"},
    ]
    tools = [{"type": "function", "function": {"name": "add"}}]
    shown = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
    assert shown == (
        '<|im_start|>system\n<tools>\n{"type": "function", "function": {"name": "add"}}\n</tools><|im_end|>\n'
        "<|im_start|>user\n2 + 2?<|im_end|>\n"
        "<|im_start|>assistant\nLet me see.\n"
        '<tool_call>\n{"name": "add", "arguments": {"a": 2, "b": 2}}\n</tool_call><|im_end|>\n'
        "<|im_start|>tool\n<tool_response>\n4\n</tool_response><|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    plain = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    assert tokenizer.apply_chat_template(plain, tokenize=False) == (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n"
    )
    assert tokenizer.convert_tokens_to_ids("<|im_end|>") == CHAT.index("<|im_end|>")


def test_a_preset_comes_before_ones_own_tokens_each_once():
    assert with_preset("chat", ["<|endoftext|>", "<mine>"]) == (*CHAT, "<mine>")
    with pytest.raises(ConfigError, match="no preset is named `talk`"):
        preset_tokens("talk")


def test_a_template_without_its_tokens_is_refused(trained, tmp_path):
    with pytest.raises(ConfigError, match=r"needs the special token `<\|im_start\|>`"):
        save(trained, tmp_path, chat=True)


def spoil(folder, change):
    document = json.loads((folder / "tokenizer.json").read_text())
    change(document)
    (folder / "tokenizer.json").write_text(json.dumps(document))


FAULTS = {
    "its model is `Unigram`": lambda file: file["model"].update(type="Unigram"),
    "a part is missing": lambda file: file.pop("model"),
    "no token or more than one has the id 300": lambda file: file["model"]["vocab"].update(
        {next(text for text, identity in file["model"]["vocab"].items() if identity == 300): 301}
    ),
    "merge 0 names the unknown token `zzz`": lambda file: file["model"]["merges"].insert(0, ["zzz", "a"]),
    "merge 1 is not a pair": lambda file: file["model"]["merges"].insert(1, ["a"]),
    "special tokens are not its first ids": lambda file: file["added_tokens"].pop(0),
    "not spelt in byte-level characters": lambda file: file["model"]["vocab"].update({"two words": 330}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_damaged_tokenizer_json_is_named_with_its_fault(folder, fault):
    spoil(folder, FAULTS[fault])
    with pytest.raises(InputError) as error:
        load_trained(folder)
    assert fault in str(error.value)
    assert "tokenizer.json" in str(error.value)


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "not JSON"),
        (b"[]", "not a JSON object"),
        (b"\x80\x04\x95", "it is a pickle"),
        (b"", "not JSON"),
    ],
)
def test_what_is_no_json_is_refused(folder, content, fault):
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(InputError, match=fault):
        load_trained(folder)


def test_a_missing_tokenizer_is_refused(tmp_path):
    with pytest.raises(InputError, match="can't read the tokenizer"):
        load_trained(tmp_path)


def test_a_place_that_cannot_be_written_is_a_storage_error(trained, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        save(trained, tmp_path / "file" / "tokenizer")
