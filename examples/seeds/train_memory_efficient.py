"""`krill tokenizer train` under its older name. `--processes` are threads; `--memory 1GB` is a budget."""

import as_krill

if __name__ == "__main__":
    as_krill.run(
        "tokenizer",
        "train",
        defaults={"--vocab-size": "10000", "--processes": "4", "--output-prefix": "memory_efficient"},
    )
