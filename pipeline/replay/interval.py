"""The best interval between saves, in hindsight or from rates.

[Y] Young 1974: sqrt(2*M*C). [D] Daly 2006: sqrt(2*M*C) * (1 + sqrt(C/(2M))/3 + C/(18*M)) - C for
C < 2M, else M. M is the mean time between interruptions of the job, C the blocking part of a save.
"""

from __future__ import annotations

from fractions import Fraction
from math import sqrt

from pipeline import units


def young_us(mtbi_us: Fraction, save_us: int) -> int:
    """Return Young's interval in whole microseconds."""
    return units.sqrt_us(2 * mtbi_us * save_us)


def daly_us(mtbi_us: Fraction, save_us: int) -> int:
    """Return Daly's higher-order interval in whole microseconds."""
    if save_us >= 2 * mtbi_us:
        return int(mtbi_us)
    ratio = save_us / (2 * float(mtbi_us))
    factor = 1 + sqrt(ratio) / 3 + ratio / 9
    return max(1, round(young_us(mtbi_us, save_us) * factor - save_us))
