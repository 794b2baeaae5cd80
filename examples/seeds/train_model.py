"""`krill train` under the name of the script before that: the data is prepared first, and then trained on."""

import sys

import as_krill

if __name__ == "__main__":
    if not {"--use-streaming", "--no-streaming"} & set(sys.argv):
        sys.argv.append("--no-streaming")
    as_krill.run("train", defaults={"--output-dir": "output"})
