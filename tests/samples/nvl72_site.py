"""The made-up site of data/samples/nvl72-site: 40 NVL72 racks for a month, as its logs would tell it.

`python -m tests.samples.nvl72_site` writes the logs and the topology; the same bytes each time. 720 nodes of
4 GPUs fail at about 4 per 1,000 node-days (the middle of what clusters publish); a GPU fault writes Xids and,
minutes later, the scheduler drains or loses the node; a node fault writes no Xid; jobs write Xids that harm
no GPU; one rack is serviced. All names and numbers are drawn, none is anybody's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "data" / "samples" / "nvl72-site"
RACKS, NODES_PER_RACK, GPUS = 40, 18, ("0008:01:00", "0009:01:00", "0018:01:00", "0019:01:00")
START, DAYS = datetime(2025, 3, 1), 31  # noqa: DTZ001 - logs of local clocks; the site's clocks are UTC
FAULTS, APP_FAULTS = 86, 60
# Xid, words, and how often of 10: what takes a GPU away until its node is reset.
XIDS = (
    (79, "GPU has fallen off the bus.", 2),
    (119, "Timeout after 6s of waiting for RPC response from GPU GSP!", 2),
    (95, "Uncontained: SRAM, RST: Yes, D-RST: No", 2),
    (48, "An uncorrectable double bit error (DBE) has been detected on GPU", 3),
    (64, "Row Remapper: failed to remap row", 1),
)
APP_XIDS = ((31, "MMU Fault: ENGINE GRAPHICS"), (13, "Graphics Exception: ESR 0x504730"))
NODE_REASONS = ("Not responding", "NVMe timeout", "NIC mlx5_1 down", "PSU 2 failed", "kernel panic")


def node(number: int) -> str:
    """Return a node's name by its number."""
    return f"r{number // NODES_PER_RACK + 1:02}-n{number % NODES_PER_RACK + 1:02}"


def xid(when: datetime, name: str, pci: str, code: int, words: str, pid: int | None = None) -> str:
    """Return a kernel line as syslog writes it: no year, no zone."""
    who = f", pid={pid}, name=python3" if pid else ""
    return (
        f"{when:%b} {when.day:2} {when:%H:%M:%S} {name} kernel: NVRM: Xid (PCI:{pci}): {code}{who}, {words}"
    )


def faults(draw: random.Random) -> Iterator[tuple[list[tuple[datetime, str]], tuple[datetime, str] | None]]:
    """Yield the kernel lines and the scheduler's row of each fault."""
    codes = [(code, words) for code, words, times in XIDS for _ in range(times)]
    for _ in range(FAULTS):
        when = START + timedelta(seconds=draw.randrange(DAYS * 86_400))
        name = node(draw.randrange(RACKS * NODES_PER_RACK))
        down_at = when + timedelta(seconds=draw.randrange(40, 400))
        back = down_at + timedelta(seconds=round(draw.lognormvariate(10.6, 1.3)))
        end = f"{back:%Y-%m-%dT%H:%M:%S}" if back < START + timedelta(days=DAYS) else "Unknown"
        if draw.random() < 0.35:
            reason = draw.choice(NODE_REASONS)
            state = "DOWN*" if reason in {"Not responding", "kernel panic"} else "DRAIN"
            yield [], (down_at, f"{name}|{down_at:%Y-%m-%dT%H:%M:%S}|{end}|{state}|slurm(64030)|{reason}")
            continue
        pci, (code, words) = draw.choice(GPUS), draw.choice(codes)
        lines = [(when, xid(when, name, pci, code, words, draw.randrange(4_000, 90_000)))]
        for _ in range(draw.choice((0, 0, 1, 3))):
            when += timedelta(seconds=draw.randrange(1, 60))
            lines.append((when, xid(when, name, pci, code, words)))
        reason = f"health check: Xid {code} | ticket {draw.randrange(100, 999)}"
        yield lines, (down_at, f"{name}|{down_at:%Y-%m-%dT%H:%M:%S}|{end}|DRAIN|root(0)|{reason}")


def files() -> dict[str, str]:
    """Return the site's files by their path below the folder."""
    draw = random.Random(72)
    kernel: list[tuple[datetime, str]] = []
    events: list[tuple[datetime, str]] = []
    for lines, event in faults(draw):
        kernel += lines
        if event:
            events.append(event)
    for _ in range(APP_FAULTS):
        when = START + timedelta(seconds=draw.randrange(DAYS * 86_400))
        code, words = draw.choice(
            ((31, "MMU Fault: ENGINE GRAPHICS"), (13, "Graphics Exception: ESR 0x504730"))
        )
        name, pci = node(draw.randrange(RACKS * NODES_PER_RACK)), draw.choice(GPUS)
        kernel.append((when, xid(when, name, pci, code, words, draw.randrange(4_000, 90_000))))
    service = START + timedelta(days=17, hours=8)
    for place in range(NODES_PER_RACK):
        name, back = node(4 * NODES_PER_RACK + place), service + timedelta(hours=6)
        row = (
            f"{name}|{service:%Y-%m-%dT%H:%M:%S}|{back:%Y-%m-%dT%H:%M:%S}|MAINT|root(0)|coolant loop service"
        )
        events.append((service, row))
    blocks = "".join(
        f"      - block: rack-{rack:02}\n        nodes: r{rack:02}-n[01-{NODES_PER_RACK}]\n"
        for rack in range(1, RACKS + 1)
    )
    header = "NodeName|TimeStart|TimeEnd|State|User|Reason"
    return {
        "incoming/slurm/2025-03.psv": "\n".join([header, *(row for _, row in sorted(events))]) + "\n",
        "incoming/kernel/2025-03.log": "\n".join(line for _, line in sorted(kernel)) + "\n",
        "topology.yaml": "- topology: racks\n  cluster_default: true\n  block:\n"
        f"    block_sizes: [{NODES_PER_RACK}]\n    blocks:\n{blocks}",
    }


def main() -> None:
    """Write the files."""
    for name, text in files().items():
        path = FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
