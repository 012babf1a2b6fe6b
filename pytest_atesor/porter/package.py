"""The zip of one port: its products and a manifest that says what was proven of them.

Regular files only, read without following a symlink; written under a temporary name in the target directory
and renamed.
"""

import json
import os
import re
import time
import zipfile
from pathlib import Path

from pytest_atesor.core.names import derive_owner_repo
from pytest_atesor.core.urls import SourceUrlError
from pytest_atesor.porter.result import Report, format_result, safe_path
from pytest_atesor.porter.settings import Settings
from pytest_atesor.porter.tree import open_inside

__all__ = ["package_name", "write_package"]

_CHUNK = 1024 * 1024
_LARGEST = 2 * 1024**3


def package_name(url: str, platform: str, stamp: str) -> str:
    """Return ``<owner>-<repo>-<stamp>-<platform>.zip``; ``stamp`` is ``YYYYMMDD-HHMMSS``."""
    try:
        owner, repo = derive_owner_repo(url)
    except SourceUrlError:
        owner, repo = "local", "package"
    parts = [
        re.sub(r"[^A-Za-z0-9._]+", "-", one).strip("-.")[:60] for one in (owner, repo.removesuffix(".git"))
    ]
    return "-".join([one for one in parts if one] + [stamp, platform]) + ".zip"


def write_package(root: Path, settings: Settings, report: Report, workspace: Path) -> Path:
    """Write the zip under ``workspace/packages/`` of ``root`` and return its path. Raises OSError."""
    target = root / "workspace" / "packages"
    target.mkdir(parents=True, exist_ok=True)
    final = target / package_name(settings.url, settings.platform, time.strftime("%Y%m%d-%H%M%S"))
    temporary = final.with_name(f".{final.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("manifest.json", _manifest(settings, report))
            for name, text in report.documents.items():
                archive.writestr(name, text.encode("utf-8", "surrogateescape"))
            _add_artifacts(archive, report, workspace)
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
    return final


def _add_artifacts(archive: zipfile.ZipFile, report: Report, workspace: Path) -> None:
    taken: set[str] = set()
    for one in report.artifacts:
        name = f"artifacts/{safe_path(one.path)}"
        if name in taken or one.size_bytes > _LARGEST:
            continue
        taken.add(name)
        with open_inside(workspace, one.path) as handle:
            info = zipfile.ZipInfo(name, time.gmtime()[:6])
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (os.fstat(handle).st_mode & 0o755) << 16
            with (
                os.fdopen(os.dup(handle), "rb") as source,
                archive.open(info, "w", force_zip64=True) as entry,
            ):
                while chunk := source.read(_CHUNK):
                    entry.write(chunk)


def _manifest(settings: Settings, report: Report) -> str:
    document = json.loads(format_result(report))
    document["schema_version"] = "package_v1"
    document["platform"] = settings.platform
    document["target"] = settings.target
    return json.dumps(document, indent=1) + "\n"
