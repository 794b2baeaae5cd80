"""`python -m krill` is `krill`."""

from krill.cli import main

main()
