"""The zip of one port: its products and a manifest that says what was proven of them.

Regular files only, as they were kept when they were scanned; written under a temporary name in the target
directory and renamed.
"""

import json
import os
import re
import time
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from pytest_atesor.core.names import derive_owner_repo
from pytest_atesor.core.plan import Target
from pytest_atesor.core.urls import SourceUrlError
from pytest_atesor.porter.result import Report, format_result, safe_path
from pytest_atesor.porter.settings import Settings
from pytest_atesor.temporary import temporary_name

__all__ = ["package_name", "write_package"]

_CHUNK = 1024 * 1024


def package_name(url: str, platform: str, stamp: str, target: Target = Target.QEMU) -> str:
    """Return ``<owner>-<repo>-<stamp>-<platform>.zip``; ``stamp`` is ``YYYYMMDD-HHMMSS``.

    What was built on the native target ends in ``-native.zip``.
    """
    try:
        owner, repo = derive_owner_repo(url)
    except SourceUrlError:
        owner, repo = "local", "package"
    parts = [
        re.sub(r"[^A-Za-z0-9._]+", "-", one).strip("-.")[:60] for one in (owner, repo.removesuffix(".git"))
    ]
    kind = ["native"] if target is Target.NATIVE else []
    return "-".join([one for one in parts if one] + [stamp, platform, *kind]) + ".zip"


def write_package(root: Path, settings: Settings, report: Report, kept: Path) -> Path:
    """Write the zip under ``workspace/packages/`` of ``root`` and return its path. Raises OSError.

    ``kept`` is where the artifacts were kept; those that were not are listed without a copy.
    """
    target = root / "workspace" / "packages"
    target.mkdir(parents=True, exist_ok=True)
    final = target / package_name(
        settings.url, settings.platform, time.strftime("%Y%m%d-%H%M%S"), settings.target
    )
    temporary = final.with_name(temporary_name(final.name))
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            members = _members(report, kept)
            archive.writestr("manifest.json", _manifest(settings, replace(report, copies=members)))
            for name, text in report.documents.items():
                archive.writestr(name, text.encode("utf-8", "surrogateescape"))
            _add_artifacts(archive, report, members, kept)
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
    return final


def _members(report: Report, kept: Path) -> dict[str, str]:
    """Return what goes into the zip: path in the tree to path below ``artifacts/``."""
    members: dict[str, str] = {}
    for one in report.artifacts:
        name = safe_path(one.path)
        if name not in members.values() and (kept / one.sha256).is_file():
            members[one.path] = name
    return members


def _add_artifacts(archive: zipfile.ZipFile, report: Report, members: Mapping[str, str], kept: Path) -> None:
    for one in report.artifacts:
        if one.path not in members:
            continue
        with (kept / one.sha256).open("rb") as source:
            info = zipfile.ZipInfo(f"artifacts/{members[one.path]}", time.gmtime()[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (os.fstat(source.fileno()).st_mode & 0o755) << 16
            with archive.open(info, "w", force_zip64=True) as entry:
                while chunk := source.read(_CHUNK):
                    entry.write(chunk)


def _manifest(settings: Settings, report: Report) -> str:
    document = json.loads(format_result(report))
    document["schema_version"] = "package_v1"
    document["platform"] = settings.platform
    document["target"] = settings.target
    return json.dumps(document, indent=1) + "\n"
