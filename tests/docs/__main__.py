"""`python -m tests.docs` (`make docs`): write the generated parts of the READMEs anew from the code."""

from __future__ import annotations

import sys

from tests.docs.files import FILES, renewed
from tests.docs.markdown import ROOT


def main() -> int:
    """Write every README anew and say which have changed."""
    for name in FILES:
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = renewed(old, name, consoles=True)
        if new != old:
            path.write_text(new, encoding="utf-8")
        print(f"{name}: {'current' if new == old else 'rewritten'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
