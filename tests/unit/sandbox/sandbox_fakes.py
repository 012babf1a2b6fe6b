"""An engine without containers: it keeps states in memory and runs commands on the host."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pytest_atesor.errors import SandboxError, SetupError
from pytest_atesor.sandbox.interface import (
    LABEL,
    Absent,
    EngineInfo,
    ExecSpec,
    Foreign,
    ImageBuild,
    Present,
    SandboxSpec,
)


@dataclass
class FakeEngine:
    """Holds images as labels by name and containers as states by name; ``calls`` notes what it was asked."""

    name: str = "fake"
    is_remote: bool = False
    images: dict[str, Mapping[str, str]] = field(default_factory=dict)
    containers: dict[str, Foreign | Present] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    offered: bool = False
    broken_build: bool = False
    problem: str | None = None
    says: str = "true"
    versions: str = ""

    def probe(self) -> EngineInfo:
        if self.problem is not None:
            raise SetupError(self.problem)
        return EngineInfo(name=self.name, version="1.0", rootless=False)

    def image_labels(self, image: str) -> Mapping[str, str] | None:
        return self.images.get(image)

    def image_id(self, image: str) -> str | None:
        return None if image not in self.images else f"id-{hash(tuple(self.images[image].items()))}"

    def is_offered(self, reference: str, *, timeout_s: float) -> bool:
        self.calls.append(f"offered? {reference} {timeout_s:.0f}")
        return self.offered

    def load_image(self, archive: Path) -> None:
        self.calls.append(f"load {archive.name}")
        self.images["localhost/pytest-atesor-sandbox:debian"] = {"loaded": archive.read_text()}

    def build_image(self, build: ImageBuild) -> None:
        self.calls.append(f"build {build.tag.rpartition('-')[0]}")  # from a name of this build's own
        build.on_line("STEP 1: \x1b[31mFROM base\n")
        if self.broken_build:
            raise SandboxError("fake build ended with exit code 1")
        self.images[build.tag] = dict(build.labels)

    def read_file(self, image: str, path: str) -> str:
        assert (image in self.images, path) == (True, "/etc/atesor-versions")
        return self.versions

    def label_image(self, image: str, labels: Mapping[str, str], *, tag: str) -> None:
        self.images[tag] = {**self.images[image], **labels}

    def untag_image(self, tag: str) -> None:
        self.images.pop(tag, None)

    def prune_images(self, label: str) -> None:
        self.calls.append(f"prune {label}")

    def state(self, name: str) -> Absent | Foreign | Present:
        return self.containers.get(name, Absent())

    def create(self, spec: SandboxSpec) -> None:
        self.calls.append(f"create {spec.name}")
        image_id = self.image_id(spec.image)
        if image_id is None:
            raise SandboxError("no such image")
        self.containers[spec.name] = Present(running=True, image_id=image_id, labels={LABEL: spec.name})

    def remove(self, name: str) -> None:
        if isinstance(self.containers.get(name), Foreign):
            raise SandboxError(f"fake: the container {name} was not made by this program and is left alone")
        if self.containers.pop(name, None) is not None:
            self.calls.append(f"remove {name}")

    def restart(self, name: str) -> None:
        self.calls.append(f"restart {name}")

    def exec_argv(self, name: str, command: ExecSpec) -> list[str]:
        self.calls.append(f"exec {name} {command.user}: {' '.join(command.argv)}")
        return ["sh", "-c", self.says]

    def set_network(self, name: str, *, enabled: bool) -> None:
        self.calls.append(f"network {name} {enabled}")

    def list_sandboxes(self) -> tuple[str, ...]:
        return tuple(name for name, state in self.containers.items() if isinstance(state, Present))
