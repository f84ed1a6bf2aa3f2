"""How a platform is on a day: a little late, and with more in what it sends than is documented; on bad days it fails besides.

A mood is drawn by a seed from HOMEBODY_FIRE_MOOD and the name of the test, so that a failure can be had again.
"""

from __future__ import annotations

import os
from typing import Final

SEED: Final = int(os.environ.get("HOMEBODY_FIRE_MOOD", "20260301"))
