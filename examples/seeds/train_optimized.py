"""`krill train` under its older name: the same flags, and each one acts. `--memory 1GB` is a budget."""

import as_krill

if __name__ == "__main__":
    as_krill.run("train", defaults={})
