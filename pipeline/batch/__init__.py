"""The scheduled batch: new files of drop folders into the lake, stale stages of scenarios, a summary.

`run.py` is the order of a night; `config.py` reads its TOML file, `drops.py` takes files in, `journal.py`
writes JSON lines, `stop.py` turns signals into a clean end, `summary.py` says how it went.
"""
