"""Fixed scale-up domains: a TP group lies within one, where any healthy GPUs may form it.

As model.md section 4 has it; the default.
"""

from __future__ import annotations

CROSSES = False
PACKINGS = ("packed", "fixed")
