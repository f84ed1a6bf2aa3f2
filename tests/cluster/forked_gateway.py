"""Runs the gateway as a fork (``tests/programs.py``). Where it begins anew, as after a lost lease, it ends instead, with ``AGAIN``.

Whoever started it forks it anew then: importing everything again, as a gateway on its own does, is most of what a strike would cost.
"""

from __future__ import annotations

import sys

AGAIN = 75

if __name__ == "__main__":
    sys.orig_argv = [sys.executable, "-I", "-S", "-c", f"raise SystemExit({AGAIN})"]
    from gateway.cli import main

    sys.exit(main(["gateway"]))
