"""Which riscv64 machines are meant and how ssh reaches them: read from the environment and checked.

Pure: nothing here looks at the disk or the network.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from pytest_atesor.errors import SetupError

__all__ = [
    "ALLOWANCES",
    "DEFAULT_WORKDIR",
    "FIELD_ALIAS",
    "Fields",
    "NativeSettings",
    "format_ssh_config",
    "parse_settings",
]

DEFAULT_WORKDIR: Final = "pytest-atesor"
"""The work directory on the machine, below the user's home there."""

FIELD_ALIAS: Final = "atesor-native"
"""The host's name in the private configuration; it is what process lists show in place of the address."""

ALLOWANCES: Final = ("virtual", "architecture", "root", "twice")
"""What ATESOR_NATIVE_ALLOW may let pass in tests: a virtual machine, another architecture, root's podman, one
machine under two names."""

_PREFIX: Final = "ATESOR_SSH_"
_ALIAS: Final = "ATESOR_SSH_HOST"
_FIELDS: Final = ("ATESOR_SSH_HOSTNAME", "ATESOR_SSH_PORT", "ATESOR_SSH_USER", "ATESOR_SSH_IDENTITY_FILE")
_HOST = re.compile(r"[A-Za-z0-9_\[:][A-Za-z0-9_.:%\[\]-]{0,252}")
_ALIAS_TEXT = re.compile(r"[A-Za-z0-9_.@:%\[\]][A-Za-z0-9_.@:%\[\]+-]{0,252}")
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}")
_IMAGE = re.compile(r"[a-z0-9][a-z0-9._/:@-]{0,254}")
_UNSAFE_PATH = re.compile(r"[\x00-\x1f\x7f\"'\\$`]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """A machine that is described here and not in the user's ssh configuration."""

    hostname: str
    port: int | None
    user: str | None
    identity_file: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeSettings:
    """One machine: an ``alias`` of the user's ssh configuration, or ``fields`` for a private one.

    ``workdir`` is absolute or counts from the home there. ``image`` is an image that stands there already and
    is used as it is, None to have one built. ``allowed`` are the preflight's checks that are waived.
    """

    alias: str | None
    fields: Fields | None
    workdir: str = DEFAULT_WORKDIR
    image: str | None = None
    allowed: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """What the machine is called in lines, records and reports."""
        return self.alias or FIELD_ALIAS


def parse_settings(environ: Mapping[str, str]) -> tuple[NativeSettings, ...]:
    """Return the settings of each machine: several aliases name several, fields describe one.

    Raises SetupError for unknown keys, mixed modes and bad values.
    """
    given = {name: value for name, value in environ.items() if name.startswith(_PREFIX) and value}
    known = (_ALIAS, *_FIELDS)
    unknown = sorted(name for name in environ if name.startswith(_PREFIX) and name not in known)
    if unknown:
        raise SetupError(f"unknown setting {unknown[0]}; the settings of ssh are {', '.join(known)}")
    fields = [name for name in _FIELDS if name in given]
    if _ALIAS in given and fields:
        raise SetupError(f"{_ALIAS} and {fields[0]} exclude each other; keep one of the two")
    if _ALIAS not in given and not fields:
        raise SetupError(
            f"the target native needs a riscv64 machine; set {_ALIAS} to a host of your ssh configuration, "
            "or ATESOR_SSH_HOSTNAME"
        )
    shared = NativeSettings(
        alias=None,
        fields=_parse_fields(given) if fields else None,
        workdir=_parse_workdir(environ.get("ATESOR_REMOTE_WORKDIR", "")),
        image=_parse_image(environ.get("ATESOR_NATIVE_IMAGE", "")),
        allowed=_parse_allowed(environ.get("ATESOR_NATIVE_ALLOW", "")),
    )
    if fields:
        return (shared,)
    return tuple(replace(shared, alias=alias) for alias in _parse_aliases(given[_ALIAS]))


def format_ssh_config(fields: Fields, alias: str) -> str:
    """Return the private ssh configuration that makes ``alias`` the machine; the user's own follows it."""
    lines = [f"Host {alias}", f"    HostName {_escape(fields.hostname)}"]
    if fields.port is not None:
        lines.append(f"    Port {fields.port}")
    if fields.user is not None:
        lines.append(f"    User {fields.user}")
    if fields.identity_file is not None:
        lines += [f'    IdentityFile "{_escape(fields.identity_file)}"', "    IdentitiesOnly yes"]
    return "\n".join([*lines, "Host *", "    Include ~/.ssh/config", ""])


def _escape(text: str) -> str:
    return text.replace("%", "%%")


def _parse_aliases(text: str) -> tuple[str, ...]:
    aliases = tuple(text.replace(",", " ").split())
    for alias in aliases or (text,):
        if not _ALIAS_TEXT.fullmatch(alias):
            raise SetupError(f"{_ALIAS}={alias[:80]!r} is no host; use an alias of your ssh configuration")
        if aliases.count(alias) > 1:
            raise SetupError(f"{_ALIAS}={text[:80]!r} names {alias} twice; name each machine once")
    return aliases


def _parse_fields(given: Mapping[str, str]) -> Fields:
    hostname = given.get("ATESOR_SSH_HOSTNAME")
    if hostname is None:
        raise SetupError(f"{next(iter(sorted(given)))} is set without ATESOR_SSH_HOSTNAME; set that, too")
    if not _HOST.fullmatch(hostname):
        raise SetupError(f"ATESOR_SSH_HOSTNAME={hostname[:80]!r} is no host name or address; correct it")
    user = given.get("ATESOR_SSH_USER")
    if user is not None and not _USER.fullmatch(user):
        raise SetupError(f"ATESOR_SSH_USER={user[:80]!r} is no user name; correct it")
    identity = given.get("ATESOR_SSH_IDENTITY_FILE")
    if identity is not None and (_UNSAFE_PATH.search(identity) or not identity.startswith(("/", "~/"))):
        raise SetupError(
            f"ATESOR_SSH_IDENTITY_FILE={identity[:80]!r} is no absolute path of plain characters; correct it"
        )
    return Fields(
        hostname=hostname, port=_parse_port(given.get("ATESOR_SSH_PORT")), user=user, identity_file=identity
    )


def _parse_port(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"[0-9]{1,5}", text) or not 1 <= int(text) <= 65_535:  # noqa: PLR2004 - last
        raise SetupError(f"ATESOR_SSH_PORT={text[:80]!r} is no port; use a number from 1 to 65535")
    return int(text)


def _parse_workdir(text: str) -> str:
    """Return a path that is absolute or below the home; what stands there, the preflight checks."""
    path = text.removeprefix("~/").rstrip("/") if text != "~" else ""
    if not text:
        return DEFAULT_WORKDIR
    parts = PurePosixPath(path).parts
    is_bad = _UNSAFE_PATH.search(text) or path.startswith(("-", "~"))
    if is_bad or ".." in parts:
        raise SetupError(
            f"ATESOR_REMOTE_WORKDIR={text[:80]!r} is no plain path; use one below the home there, "
            "or an absolute one, without .."
        )
    if parts in {(), (".",), ("/",)} or ".ssh" in parts:
        raise SetupError(
            f"ATESOR_REMOTE_WORKDIR={text[:80]!r} must not be the home itself, a parent of it or ~/.ssh; "
            f"use a directory of its own, such as ~/{DEFAULT_WORKDIR}"
        )
    return path


def _parse_image(text: str) -> str | None:
    if not text:
        return None
    if not _IMAGE.fullmatch(text):
        raise SetupError(f"ATESOR_NATIVE_IMAGE={text[:80]!r} is no image name; correct or unset it")
    return text


def _parse_allowed(text: str) -> frozenset[str]:
    words = frozenset(text.replace(",", " ").split())
    unknown = sorted(words - set(ALLOWANCES))
    if unknown:
        raise SetupError(f"ATESOR_NATIVE_ALLOW={unknown[0][:80]!r} is unknown; use {', '.join(ALLOWANCES)}")
    return words
