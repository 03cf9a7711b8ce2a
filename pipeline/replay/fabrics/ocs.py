"""Cubes joined by optical circuit switches: any healthy cubes form a TP group that is larger than one.

TPU v4 (arXiv 2304.01433): cubes of 4x4x4 chips, whose faces the switches can connect to those of any other
cubes, so any healthy cube replaces a failed one. `domain_size` is the cube (64) and TP a multiple of it; a
cube with a failed chip takes part in no such group. A TP degree up to a cube is as in `domains`. Not
modelled: the shape of the slice (its torus), the time to switch beyond the costs of a start, failures of the
switches.
"""

from __future__ import annotations

CROSSES = True
PACKINGS = ("packed", "fixed")
