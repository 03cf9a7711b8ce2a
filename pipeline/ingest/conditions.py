"""What node conditions and health checks of Kubernetes clusters mean: severity, component, healthy value.

In: the type of a condition (`Ready`, `KernelDeadlock`, `SysLogsXIDError`), or an Xid that an agent reports.
Out: its `Meaning`; what a message packs (`ErrorCode:119 PCI:... Recommended Action=...;`), apart.
Easy to get wrong: Kubernetes' own conditions are bad when True, but for Ready and whatever ends in Ready; a
type that is not listed says nothing about its polarity, so it is `info`. Only what takes the node out of
service is `down`: Ready, and checks after which a controller drains, reboots or replaces the node. Conditions
that node-problem-detector reads off a log never clear by themselves: `STICKY`.
Source: Kubernetes' Node API; node-problem-detector's shipped rules; documents of AKS, EKS, GKE, HyperPod and
NVSentinel.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from pipeline.ingest import xids
from pipeline.ingest.documents import gpu_name
from pipeline.ingest.parsing import Options

DOWN, DEGRADED, APP, INFO = "down", "degraded", "app", "info"
READY = "Ready"
CORDON = "unschedulable"


class Meaning(NamedTuple):
    """What it means when a condition is not healthy, and which status is the healthy one."""

    severity: str
    component: str
    healthy: str = "False"


class PackedError(NamedTuple):
    """One error of a packed message: its code, the action it asks for, and its GPU."""

    code: str
    action: str
    gpu_name: str | None


_BY_COMPONENT = {
    # Kubernetes: the node's own pressure evicts pods; the node stays in service.
    (DEGRADED, "software"): (
        "MemoryPressure PIDPressure NetworkUnavailable KernelDeadlock FrequentKubeletRestart"
        " FrequentDockerRestart FrequentContainerdRestart KubeletUnhealthy ContainerRuntimeUnhealthy"
        " KubeletProblem ContainerRuntimeProblem KubeletNetworking NTPProblem"
        " UnhealthyNvidiaDevicePlugin UnhealthyNvidiaDCGMServices"
    ),
    (DEGRADED, "storage"): (
        "DiskPressure OutOfDisk ReadonlyFilesystem XfsShutdown CorruptDockerOverlay2 CorruptDockerImage"
        " FilesystemCorruptionProblem"
    ),
    (DEGRADED, "nic"): "FrequentUnregisterNetDevice NetworkProblem IBLinkFlapping",
    (DEGRADED, "host"): "CperHardwareErrorFatal",
    (DEGRADED, "gpu"): "XidCriticalError GPUProblem GPUMissing XIDErrors NvidiaError",
    (DEGRADED, "nvlink"): "NVLinkStatusInactive",
    (INFO, "planned"): "VMEventScheduled",
    # HyperPod reboots the node, or replaces it.
    (DOWN, "gpu"): "NvidiaErrorReboot NvidiaErrorTerminate",
}
MEANINGS = {
    READY: Meaning(DOWN, "unknown", "True"),
    # The node monitoring agent of EKS: healthy when True.
    "AcceleratedHardwareReady": Meaning(DEGRADED, "gpu", "True"),
    "ContainerRuntimeReady": Meaning(DEGRADED, "software", "True"),
    "KernelReady": Meaning(DEGRADED, "software", "True"),
    "NetworkingReady": Meaning(DEGRADED, "nic", "True"),
    "StorageReady": Meaning(DEGRADED, "storage", "True"),
    **{
        name: Meaning(severity, component)
        for (severity, component), names in _BY_COMPONENT.items()
        for name in names.split()
    },
}
STICKY = frozenset(
    {
        "KernelDeadlock",
        "ReadonlyFilesystem",
        "XfsShutdown",
        "CperHardwareErrorFatal",
        "CorruptDockerOverlay2",
        "CorruptDockerImage",
        "KubeletNetworking",
    }
)

# Checks of NVSentinel: a condition of the node says that a fatal event is open.
_CHECK = re.compile(r"SysLogs[A-Z]\w*|Gpu[A-Z]\w*(?:Watch|Error|Failure)|CSPMaintenance\w*")
_WORDS = (  # the first that is found; a check's name, a component of gpud, a reason
    ("planned", r"maintenance"),
    ("nvlink", r"nv-?link|nv-?switch|(?<!log)sxid|fabric"),
    ("hbm", r"gpumem|ecc|remap|retired|\bhbm"),
    ("cooling", r"therm|temperature|\bfan"),
    ("power", r"power|psu"),
    ("nic", r"infiniband|\bib\b|\bnic|ethernet|network|\befa\b"),
    ("storage", r"disk|nfs|filesystem|\bfs\b|lustre"),
    ("software", r"driver|dcgm|kubelet|containerd|docker|library|fuse|processes|kernel|task|oom"),
    ("gpu", r"gpu|xid|nvidia|accelerator"),
    ("host", r"cpu|memory|\bos\b|pci|host|syslog"),
)
_PATTERNS = tuple((component, re.compile(pattern, re.IGNORECASE)) for component, pattern in _WORDS)
_PACKED = re.compile(
    r"ErrorCode:(\S+)\s(.*?)(?:Recommended Action=([A-Za-z_]+)|(?=ErrorCode:)|\Z)", re.DOTALL
)
_NAMED = re.compile(r"(?:^|\s)(PCI|GPU_UUID):(\S+)")


def meaning(name: str) -> Meaning | None:
    """Return what a condition means, or None for one that is not known."""
    found = MEANINGS.get(name)
    if found is None and _CHECK.fullmatch(name):
        found = Meaning(DOWN, component_of(name))
    return found


def component_of(*names: str) -> str:
    """Return the component that names and words point to, the first name first; `unknown` without any."""
    for name in names:
        for component, pattern in _PATTERNS:
            if pattern.search(name):
                return component
    return "unknown"


def packed(message: str) -> list[PackedError]:
    """Return the errors that NVSentinel packs into a condition's message."""
    found = []
    for code, text, action in _PACKED.findall(message):
        named = {key: gpu_name(value) for key, value in _NAMED.findall(text)}
        found.append(PackedError(code, action, named.get("PCI") or named.get("GPU_UUID")))
    return found


def xid_fault(code: int, text: str, options: Options) -> tuple[xids.Meaning, str]:
    """Return what an Xid means, and its identity: as in the kernel's log, so that one fault counts once."""
    known = xids.meaning(code, text, options)
    weighs_less = xids.table(options).has_rules(code) and known.severity != DOWN
    return known, f"xid {code} {known.severity}" if weighs_less else f"xid {code}"
