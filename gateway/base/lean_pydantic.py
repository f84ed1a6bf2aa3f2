"""Imports pydantic without what reads the metadata of packages: it looks for plugins there, which ``homebody`` turns off.

Import it before what defines models. 20 modules of Python's library stay unloaded where nothing else needs them.
"""

from __future__ import annotations

import os

from gateway.base.lean_import import leaving_out

if os.environ.get("PYDANTIC_DISABLE_PLUGINS") == "__all__":
    with leaving_out("importlib.metadata"):
        from pydantic import create_model

        create_model("First")
