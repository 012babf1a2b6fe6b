"""A real OpenSSH server on this machine, without a port: the client starts it in place of a connection."""

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import psutil

SSHD = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


@dataclass(frozen=True, slots=True)
class Server:
    """The server: its files, and the settings with which our client reaches it."""

    directory: Path
    environ: dict[str, str]

    @property
    def programs(self) -> Path:
        """The directory of the client, to stand first on PATH."""
        return self.directory / "bin"

    def refuse(self, host: str) -> None:
        """Have no connection to that host come about until it is taken back."""
        (self.directory / f"refused-{host}").touch()

    def take_back(self, host: str) -> None:
        """Let that host be reached again."""
        (self.directory / f"refused-{host}").unlink()

    def servers_of(self, client: "subprocess.Popen[bytes] | psutil.Process") -> list[psutil.Process]:
        """Return the server's processes that serve that client."""
        servers = []
        for one in psutil.Process(client.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):  # what served the login only may end meanwhile
                if "sshd" in one.name():
                    servers.append(one)
        return servers


def make_server(place: Path) -> Server:
    """Write keys, configuration and client of a server below ``place``; it needs sshd."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    directory = place / "server"
    directory.mkdir()
    for name in ("host_key", "key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(directory / name)],  # noqa: S607 - PATH
            check=True,
        )
    (directory / "sshd_config").write_text(
        f"HostKey {directory}/host_key\n"
        f"AuthorizedKeysFile {directory}/key.pub\n"
        "StrictModes no\nUsePAM no\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
        "PermitRootLogin prohibit-password\nLogLevel ERROR\n",
        encoding="utf-8",
    )
    public = (directory / "host_key.pub").read_text(encoding="utf-8")
    (directory / "known_hosts").write_text(f"* {public}", encoding="utf-8")
    programs = directory / "bin"
    programs.mkdir()
    client = programs / "ssh"
    client.write_text(
        "#!/bin/sh\n"
        f"exec {shutil.which('ssh')} -F none -o UserKnownHostsFile='{directory}/known_hosts' "
        f"-o GlobalKnownHostsFile=none -o IdentityFile='{directory}/key' "
        f'-o ProxyCommand="{directory}/connect %n" "$@"\n',
        encoding="utf-8",
    )
    connect = directory / "connect"
    connect.write_text(
        f'#!/bin/sh\n[ ! -e "{directory}/refused-$1" ] || exit 1\n'
        f"exec {SSHD} -i -f {directory}/sshd_config -E {directory}/log\n",
        encoding="utf-8",
    )
    for program in (client, connect):
        program.chmod(0o755)
    environ = {
        "ATESOR_SSH_HOST": "board",
        "ATESOR_REMOTE_WORKDIR": str(place / "work"),
        "ATESOR_NATIVE_ALLOW": "virtual,architecture,root",
        "XDG_CACHE_HOME": str(place / "cache"),
        "HOME": str(place),
    }
    return Server(directory, environ)
