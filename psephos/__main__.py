"""`python -m psephos`: the command."""

from psephos.cli.main import main

main()
