"""Topology files: four formats that say the same, and what each refuses."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline import resources
from pipeline.errors import InputError
from pipeline.topology import files
from pipeline.topology.layout import Topology

SAMPLES = resources.folder("samples")
RACKS = {
    "rack-a": ["node-01", "node-02", "node-03"],
    "rack-b": ["node-04", "node-05", "node-06"],
    "rack-c": ["node-07", "node-09", "node-11"],
    "rack-d": ["node-08", "node-10", "node-12"],
}
BLOCK = "- topology: t\n  block:\n    blocks:\n"
TREE = "switches (topology/tree)"

# (file, text, what the message must hold; it begins with the file and the place)
WRONG = [
    ("t.csv", "", ["t.csv: no node"]),
    ("t.csv", "node,domain\n", ["t.csv: no node", "at least one domain"]),
    ("t.csv", "node,rack\na,r\n", ["t.csv: column 'domain' stands not in the header 'node,rack'"]),
    ("t.csv", "node,node,domain\na,b,r\n", ["column 'node' stands twice"]),
    ("t.csv", "hostname,domain\na,r\n", ["column 'node' stands not", "node,domain[,gpus,...]", "to do:"]),
    ("t.csv", "node,domain\na,r,x\n", ["t.csv line 2: 3 fields, the header has 2", "to do: mend the row"]),
    ("t.csv", "node,domain\na\n", ["t.csv line 2: 1 fields"]),
    ("t.csv", "node,domain\na,r\n\n ,r\n", ["t.csv line 4: node is empty", "to do: fill it in"]),
    ("t.csv", "node,domain\na,\n", ["t.csv line 2: domain is empty"]),
    ("t.csv", 'node,domain\n"a,r\n', ["t.csv line 2: not CSV"]),
    ("t.csv", "node,domain\na,r\nb,r\na,s\n",
     ["t.csv line 4: node 'a' again, in 's'", "first in 'r' (line 2)"]),
    ("t.csv", "node,domain\na,r\na,r\n", ["t.csv line 3: node 'a' again", "each node once"]),
    ("t.csv", "node,domain,gpus\na,r,8x\n", ["t.csv line 2 gpus: found '8x'", "a whole number"]),
    ("t.conf", "", ["t.conf: no node"]),
    ("t.conf", "BlockName=b1\n", ["t.conf line 1: block 'b1' has no nodes", "node[01-18]"]),
    ("t.conf", 'BlockName=b1 Nodes=""\n', ["t.conf line 1: block 'b1' has no nodes"]),
    ("t.conf", "\nNodes=a\n", ["t.conf line 2: Nodes without BlockName"]),
    ("t.conf", "BlockName=b1 Nodes=a\nBlockName=b1 Nodes=b\n", ["line 2: block 'b1' again; first at line 1"]),
    ("t.conf", "BlockName=b1 Nodes=a\nBlockName=b2 Nodes=b,a\n",
     ["line 2: node 'a' again, in 'b2'; first in 'b1'"]),
    ("t.conf", "BlockName=b1 Nodes=n[1-\n", ["line 1, nodes of 'b1': '[' without ']'", "to do: `scontrol"]),
    ("t.conf", "BlockName=b1 Nodes=n[1-99999999]\n", ["line 1, nodes of 'b1': more than 1,000,000 hosts"]),
    ("t.conf", "BlockName=b1 Nodes=n[1-600000]\nBlockName=b2 Nodes=m[1-600000]\n",
     ["line 2, nodes of 'b2': more"]),
    ("t.conf", "BlockName=b1 Node=a\n",
     ["line 1: unknown key 'node'", "BlockName, BlockSizes", "did you mean 'Nodes'"]),
    ("t.conf", "BlockName=b1 Nodes=a Nodes=b\n", ["line 1: Nodes twice"]),
    ("t.conf", "BlockName=b1 Nodes=a, b\n",
     ["line 1: 'b' is not Key=Value", "BlockName=b1 Nodes=node[01-18]"]),
    ("t.conf", "BlockSizes=18,x\n", ["line 1: block sizes '18,x'", "18,36"]),
    ("t.conf", "SwitchName=s1 Nodes=a\n", [f"t.conf line 1: {TREE}", "blocks (topology/block)", "to do: "]),
    ("t.conf", "TopologyPlugin=topology/tree\n", [f"line 1: {TREE}"]),
    ("t.conf", "TopologyPlugin=topology/3d_torus\n",
     ["line 1: TopologyPlugin=topology/3d_torus", "topology/block"]),
    ("t.yaml", "", ["t.yaml: nothing", "a list of topologies"]),
    ("t.yaml", "block: 3\n", ["t.yaml: found {'block': '3'}", "a list of topologies"]),
    ("t.yaml", "- a: [\n", ["t.yaml line 2: not YAML"]),
    ("t.yaml", "- \x01\n", ["t.yaml: not YAML"]),
    ("t.yaml", "[" * 100_000, ["t.yaml: not YAML"]),
    ("t.yaml", "- topology: t\n  flat: true\n", ["t.yaml: 0 topologies with blocks"]),
    ("t.yaml", "- topology: t\n  tree:\n    switches: []\n", [f"t.yaml: {TREE}"]),
    ("t.yaml", "- block: {}\n- block: {}\n", ["t.yaml: 2 topologies with blocks", "cluster_default"]),
    ("t.yaml", "- topology: t\n  block: b1\n", ["t.yaml block: found 'b1'", "block_sizes and blocks"]),
    ("t.yaml", "- topology: t\n  block:\n    blocks: b\n", ["t.yaml blocks: found 'b'", "a list of blocks"]),
    ("t.yaml", BLOCK + "      - nodes: a\n", ["t.yaml block 1: found {'nodes': 'a'}", "block: b1 and nodes"]),
    ("t.yaml", BLOCK + "      - {block: b, nodes: [a]}\n", ["t.yaml block 1: found"]),
    ("t.yaml", BLOCK + "      - block: b\n", ["t.yaml block 1: block 'b' has no nodes"]),
    ("t.yaml", BLOCK + "      - {block: b, nodes: 'a[1'}\n",
     ["t.yaml block 1, nodes of 'b': '[' without ']'"]),
    ("t.yaml", "- block: {block_sizes: 18, blocks: []}\n",
     ["t.yaml block_sizes: found '18'", "a list of sizes"]),
    ("t.yaml", "- block: {block_sizes: [x], blocks: []}\n", ["t.yaml block_sizes: block sizes 'x'"]),
    ("t.txt", "a", ["'t.txt' is no known format", ".csv or .parquet", "to do: rename it"]),
    ("t.parquet", "PAR1", ["t.parquet: not Parquet"]),
]  # fmt: skip


def read(folder: Path, name: str, text: str) -> Topology:
    (folder / name).write_text(text)
    return files.read(folder / name, "s.toml [cluster] topology")


def plain(topology: Topology) -> dict[str, list[str]]:
    return {name: [row.node for row in rows] for name, rows in topology.domains.items()}


@pytest.mark.parametrize("name", ["topology.csv", "topology.conf", "topology.yaml"])
def test_the_samples_say_the_same(name: str) -> None:
    """CSV, topology.conf and topology.yaml of one cluster give the same domains in the same order."""
    topology = files.read(SAMPLES / name, "")
    assert plain(topology) == RACKS
    assert list(topology.domains) == list(RACKS)
    assert topology.sha256 == files.read(SAMPLES / "topology.csv", "").sha256


@pytest.mark.parametrize("domain", ["text", "number"])
def test_parquet_says_the_same_as_csv(tmp_path: Path, domain: str) -> None:
    """Parquet has the CSV's columns; domains may be numbers there, and a null in gpus is gpus_per_node."""
    names = ["7", "7", "3"]
    labels = names if domain == "text" else [int(name) for name in names]
    frame = pl.DataFrame(
        {"domain": labels, "node": ["b", "a", "c"], "gpus": [None, 4, None], "pod": [1, 2, 3]}
    )
    frame.write_parquet(tmp_path / "t.parquet")
    topology = files.read(tmp_path / "t.parquet", "")
    csv = read(tmp_path, "t.csv", "node,domain,gpus\nb,7,\na,7,4\nc,3,\n")
    assert plain(topology) == {"7": ["b", "a"], "3": ["c"]}
    assert topology.sha256 == csv.sha256
    (tmp_path / "t.bin").write_bytes((tmp_path / "t.parquet").read_bytes())
    assert files.read(tmp_path / "t.bin", "").sha256 == csv.sha256


@pytest.mark.parametrize(
    ("name", "text", "said"), WRONG, ids=[f"{i}-{row[0]}" for i, row in enumerate(WRONG)]
)
def test_a_wrong_file_is_told(tmp_path: Path, name: str, text: str, said: list[str]) -> None:
    """The message names the file and the place, what was found, what may stand there, and no folder."""
    with pytest.raises(InputError) as caught:
        read(tmp_path, name, text)
    told = str(caught.value)
    assert all(part in told for part in said), told
    assert str(tmp_path) not in told


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """A missing file, a folder and bytes that are no text name the scenario's key or the line."""
    with pytest.raises(InputError, match=r"s\.toml.*'no\.csv' cannot be read"):
        files.read(tmp_path / "no.csv", "s.toml [cluster] topology")
    with pytest.raises(InputError, match="cannot be read"):
        files.read(tmp_path, "s.toml [cluster] topology")
    (tmp_path / "t.csv").write_bytes(b"node,domain\n\xff,a\n")
    with pytest.raises(InputError, match=r"t\.csv line 2: not UTF-8"):
        files.read(tmp_path / "t.csv", "")


def test_slurm_writes_keys_in_any_case_with_comments_and_joined_lines(tmp_path: Path) -> None:
    """Comments end a line, a backslash joins lines, quotes hold spaces, and the case of keys is free."""
    text = """# a comment \\
TopologyPlugin = topology/block
BLOCKNAME = b1 NODES = node[1-2] # nodes=x
  blockname=b2 \\
  nodes="a, c[08-09]" \\

BlockLevels=1,2
\\
BlockName=b3 Nodes=d"""
    topology = read(tmp_path, "t.CONF", text.replace("\n", "\r\n"))
    assert plain(topology) == {"b1": ["node1", "node2"], "b2": ["a", "c08", "c09"], "b3": ["d"]}


def test_blocks_may_be_larger_than_slurm_plans_with_and_interleave(tmp_path: Path) -> None:
    """The block is the domain: BlockSizes 30 of 32 leaves two spares; members need not be neighbours."""
    topology = read(tmp_path, "t.conf", "BlockName=block1 Nodes=node[1-32]\nBlockSizes=30,120\n")
    assert len(topology.nodes) == 32
    topology = read(
        tmp_path, "t.conf", "BlockName=b1 Nodes=n[1,3,5]\nBlockName=b2 Nodes=n[2,4,6]\nBlockSizes=3\n"
    )
    assert plain(topology) == {"b1": ["n1", "n3", "n5"], "b2": ["n2", "n4", "n6"]}


def test_names_in_yaml_stay_texts(tmp_path: Path) -> None:
    """010 is a name and not the number 8, yes is no truth; of several topologies the default counts."""
    text = """
- topology: other
  block: {blocks: [{block: x, nodes: y}]}
- topology: mine
  cluster_default: true
  block:
    block_sizes: [1]
    blocks:
      - {block: 010, nodes: 1e3}
      - {block: yes, nodes: "n[01-02]"}
"""
    assert plain(read(tmp_path, "t.yml", text)) == {"010": ["1e3"], "yes": ["n01", "n02"]}


def test_yaml_that_grows_by_reference_is_refused_at_once(tmp_path: Path) -> None:
    """Lists of lists by alias are never written out, not even in the message."""
    lines = ["- &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"- &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    text = "\n".join(lines) + "\n- block: {block_sizes: *a11, blocks: [*a11]}\n"
    with pytest.raises(InputError, match="block_sizes"):
        read(tmp_path, "t.yaml", text)
    with pytest.raises(InputError, match="block 1: found"):
        read(tmp_path, "t.yaml", text.replace("block_sizes: *a11, ", ""))


@settings(max_examples=60, deadline=None, derandomize=True, database=None)
@given(data=st.data())
def test_any_clusters_round_trip_is_the_same_in_every_format(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A cluster written as CSV, topology.conf, topology.yaml and Parquet reads back as it was."""
    names = data.draw(
        st.lists(st.text("abn01-_.", min_size=1, max_size=5), min_size=1, max_size=9, unique=True)
    )
    labels = data.draw(
        st.lists(st.sampled_from(["r1", "r2", "01", "no"]), min_size=len(names), max_size=len(names))
    )
    domains: dict[str, list[str]] = {}
    for name, label in zip(names, labels, strict=True):
        domains.setdefault(label, []).append(name)
    pairs = [(node, label) for label, nodes in domains.items() for node in nodes]
    folder = tmp_path_factory.mktemp("topology")
    pl.DataFrame(pairs, schema=["node", "domain"], orient="row").write_parquet(folder / "t.parquet")
    joined = {label: ",".join(nodes) for label, nodes in domains.items()}
    found = [
        read(folder, "t.csv", "node,domain\n" + "".join(f"{node},{label}\n" for node, label in pairs)),
        read(folder, "t.conf", "".join(f"BlockName={key} Nodes={nodes}\n" for key, nodes in joined.items())),
        read(folder, "t.yaml", BLOCK + "".join(
            f"      - block: {label}\n        nodes: '{nodes}'\n" for label, nodes in joined.items()
        )),
        files.read(folder / "t.parquet", ""),
    ]  # fmt: skip
    assert [plain(topology) for topology in found] == [domains] * 4
    assert len({topology.sha256 for topology in found}) == 1
