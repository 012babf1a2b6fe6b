"""Makes a riscv64 machine from Debian's packages and boots it in emulation, to test the native target on.

    python tools/riscv_machine.py make DIR            a root file system, a disk and a key, once
    python tools/riscv_machine.py boot DIR [--port P] run the machine until it is switched off or Ctrl-C

It is reached over a loopback port by the user "atesor", whose podman needs no root. ``DIR/ssh_config`` has
the alias "riscv-machine". Needs Debian's qemu-system-misc, opensbi, mmdebstrap, e2fsprogs, openssh-client,
root, and riscv64 emulation (./bootstrap setup). Its compute is 10 to 20 times slower than this machine's:
good for protocol, isolation and recovery, useless for speed.
"""
# ruff: noqa: S607 - programs of PATH

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from pytest_atesor.sandbox.bootstrap import read_debian_mirror

USER = "atesor"
ALIAS = "riscv-machine"
PACKAGES = (
    "linux-image-riscv64",
    "openssh-server",
    "podman",
    "crun",
    "uidmap",
    "netavark",
    "aardvark-dns",
    "nftables",
    "passt",
    "rsync",
    "systemd-sysv",
    "dbus-user-session",
    "libpam-systemd",
    "iproute2",
    "udev",
    "mmdebstrap",
    "arch-test",
    "ca-certificates",
    "zstd",
)
# The addresses of QEMU's user network; a daemon that asks for them takes minutes to start in emulation.
NETWORK = """\
[Unit]
Before=network.target
Wants=network.target
[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=ip link set lo up
ExecStart=ip link set eth0 up
ExecStart=ip address add 10.0.2.15/24 dev eth0
ExecStart=ip route add default via 10.0.2.2
[Install]
WantedBy=multi-user.target
"""
DISK_BYTES = 40 * 1024**3
BOOT_S = 1200
# On a busy host the machine is slower than its services expect.
SLOW = "systemd.default_timeout_start_sec=1200 systemd.mask=ldconfig.service"


def make(directory: Path) -> None:
    """Make key, root and disk; what is there already is kept."""
    directory.mkdir(parents=True, exist_ok=True)
    key = directory / "key"
    if not key.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", ALIAS, "-f", str(key)], check=True
        )
    root = directory / "root"
    if not (directory / "vmlinuz").exists():
        _make_root(root, key.with_suffix(".pub"), directory)
    disk = directory / "disk.img"
    if not disk.exists():
        partial = directory / "disk.partial"
        partial.unlink(missing_ok=True)
        with partial.open("wb") as file:
            file.truncate(DISK_BYTES)
        subprocess.run(["mkfs.ext4", "-q", "-d", str(root), str(partial)], check=True)
        partial.rename(disk)


def _make_root(root: Path, public_key: Path, directory: Path) -> None:
    network = directory / "static-network.service"
    network.write_text(NETWORK, encoding="utf-8")
    home = f"/home/{USER}"
    hooks = [
        f'chroot "$1" useradd --create-home --shell /bin/bash {USER}',
        f'mkdir -p "$1{home}/.ssh" "$1/var/lib/systemd/linger"; touch "$1/var/lib/systemd/linger/{USER}"',
        f"upload '{public_key}' {home}/.ssh/authorized_keys",
        f'chroot "$1" chown -R {USER}: {home}/.ssh',
        f'chmod 700 "$1{home}/.ssh"; chmod 600 "$1{home}/.ssh/authorized_keys"',
        f"upload '{network}' /etc/systemd/system/static-network.service",
        'chroot "$1" systemctl enable static-network',
        'rm -f "$1/etc/resolv.conf"; echo "nameserver 10.0.2.3" > "$1/etc/resolv.conf"',
        f'echo {ALIAS} > "$1/etc/hostname"; echo "127.0.0.1 localhost {ALIAS}" > "$1/etc/hosts"',
    ]
    mirror = read_debian_mirror()
    command = [
        "mmdebstrap",
        "--architectures=riscv64",
        "--variant=minbase",
        f"--include={','.join(PACKAGES)}",
        "--skip=cleanup/apt/lists",
        *(f"--customize-hook={hook}" for hook in hooks),
        "trixie",
        str(root),
        *([mirror] if mirror else []),
    ]
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run(command, check=True, env={**os.environ, "LC_ALL": "C.UTF-8"})
    boot = root / "boot"
    shutil.copy(next(boot.glob("initrd.img-*")), directory / "initrd")
    shutil.copy(next(boot.glob("vmlinu[xz]-*")), directory / "vmlinuz")


def boot(directory: Path, port: int, processors: int, memory: str) -> int:
    """Run the machine; print how to reach it once its ssh answers. Return its exit code."""
    (directory / "ssh_config").write_text(_format_config(directory, port), encoding="utf-8")
    command = [
        "qemu-system-riscv64",
        *("-machine", "virt", "-smp", str(processors), "-m", memory),
        *("-display", "none", "-monitor", "none", "-serial", f"file:{directory / 'console.log'}"),
        *("-bios", "default", "-kernel", str(directory / "vmlinuz"), "-initrd", str(directory / "initrd")),
        *("-append", f"root=/dev/vda rw console=ttyS0 net.ifnames=0 {SLOW}"),
        *("-drive", f"file={directory / 'disk.img'},format=raw,id=disk,if=none"),
        *("-device", "virtio-blk-device,drive=disk"),
        *("-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{port}-:22"),
        *("-device", "virtio-net-device,netdev=net"),
        *("-object", "rng-random,filename=/dev/urandom,id=rng", "-device", "virtio-rng-device,rng=rng"),
    ]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL) as machine:
        signal.signal(signal.SIGTERM, lambda *_: machine.terminate())
        started = time.monotonic()
        try:
            if _wait_for_ssh(machine, port):
                print(
                    f"the machine answers after {time.monotonic() - started:.0f} s: "
                    f"ssh -F {directory / 'ssh_config'} {ALIAS}",
                    flush=True,
                )
            machine.wait()
        except KeyboardInterrupt:
            machine.terminate()
        return machine.wait()


def _format_config(directory: Path, port: int) -> str:
    return (
        f"Host {ALIAS}\n"
        "    HostName 127.0.0.1\n"
        f"    Port {port}\n"
        f"    User {USER}\n"
        f"    IdentityFile {directory / 'key'}\n"
        "    IdentitiesOnly yes\n"
        f"    UserKnownHostsFile {directory / 'known_hosts'}\n"
        "    StrictHostKeyChecking accept-new\n"
    )


def _wait_for_ssh(machine: "subprocess.Popen[bytes]", port: int) -> bool:
    """Wait for the greeting of the machine's ssh server; False when the machine ended or time is up."""
    give_up = time.monotonic() + BOOT_S
    while machine.poll() is None and time.monotonic() < give_up:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                if connection.recv(4) == b"SSH-":
                    return True
        except OSError:
            pass
        time.sleep(1)
    return False


def main(arguments: list[str]) -> int:
    """Run one command and return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=("make", "boot"))
    parser.add_argument("directory", type=Path)
    parser.add_argument("--port", type=int, default=22022)
    parser.add_argument("--processors", type=int, default=2)
    parser.add_argument("--memory", default="4G")
    given = parser.parse_args(arguments)
    directory = given.directory.absolute()
    if given.command == "make":
        make(directory)
        return 0
    return boot(directory, given.port, given.processors, given.memory)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
