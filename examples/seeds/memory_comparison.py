"""`krill tokenizer compare` under its older name: each trainer in its own process, with its true peak."""

import as_krill

if __name__ == "__main__":
    as_krill.run("tokenizer", "compare", defaults={"--vocab-size": "1000", "--processes": "2"})
