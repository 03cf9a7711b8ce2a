"""Pages from templates: one base for all, autoescaped, one self-contained HTML text each.

In: the name of a template beside this file, or in a folder of the caller's own, and its values. Out: HTML.
Easy to get wrong: JSON inside a script element must not end it; `script` and `bundle` see to that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from pipeline import __version__
from pipeline.report import theme

FOLDER = Path(__file__).parent
_PACKAGES = (
    "polars",
    "pyarrow",
    "duckdb",
    "numpy",
    "altair",
    "vl-convert-python",
    "jinja2",
)


def render(template: str, values: Mapping[str, Any], unbroken_words: Sequence[str], *folders: Path) -> str:
    """Return a page; no line breaks within any of the words."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([*folders, FOLDER]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    kept_whole = sorted(unbroken_words, key=len, reverse=True)
    environment.filters["nb"] = lambda text: unbroken(text, kept_whole)
    common = {
        "dark": theme.DARK,
        "config": script(theme.config()),
        "dark_tones": script(theme.DARK),
        "bundle": bundle(),
        "percent": theme.percent,
        "spread": theme.spread,
        "whole": theme.whole,
        "gained": theme.gained,
        "packages": versions(),
    }
    return environment.get_template(template).render(**common, **values)


def unbroken(text: str, names: Sequence[str]) -> Markup:
    """Return text in which no line breaks within any of these words."""
    if not names:
        return escape(text)
    pattern = "|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in names)
    parts = re.split(f"({pattern})", text)
    # Every second part is a name, because the pattern is one group.
    return Markup("").join(
        Markup('<span class="nb">{}</span>').format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )


def versions() -> list[tuple[str, str]]:
    """Return the versions of the packages that made the page."""
    return [("goodput-replay", __version__), *((package, metadata.version(package)) for package in _PACKAGES)]


def script(value: Any) -> str:
    """Return JSON that is safe inside a script element."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


@cache
def bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    import vl_convert

    text: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    return text.replace("</script", "<\\/script")
