"""A sandbox that runs nothing: a fake of our protocol for tests of what is run, in which order, as whom."""

import re
from dataclasses import dataclass, field
from typing import BinaryIO

from pytest_atesor.sandbox.interface import Completed, ExecSpec


@dataclass
class FakeSandbox:
    """Answers scripts by pattern: each answer is used once, the last one of a pattern for ever."""

    answers: list[tuple[str, list[tuple[int, bytes]]]]
    ran: list[ExecSpec] = field(default_factory=list)
    network: list[bool] = field(default_factory=list)
    cleared: int = 0

    def run(
        self,
        command: ExecSpec,
        *,
        timeout_s: float,  # noqa: ARG002 - the protocol's
        sink: BinaryIO | None = None,
        tail_bytes: int = 65_536,
    ) -> Completed:
        self.ran.append(command)
        script = command.argv[-1]
        for pattern, replies in self.answers:
            if re.search(pattern, script):
                code, output = replies.pop(0) if len(replies) > 1 else replies[0]
                if sink is not None:
                    sink.write(output)
                return Completed(exit_code=code, tail=output[-tail_bytes:], duration_s=0.0)
        return Completed(exit_code=0, tail=b"", duration_s=0.0)

    def clear(self) -> None:
        self.cleared += 1

    def set_network(self, *, enabled: bool) -> None:
        self.network.append(enabled)

    def scripts(self, pattern: str) -> list[str]:
        return [one.argv[-1] for one in self.ran if re.search(pattern, one.argv[-1])]
