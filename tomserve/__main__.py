"""``python -m tomserve`` is the same as ``tomserve``."""

from tomserve.cli import main

main()
