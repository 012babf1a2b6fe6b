"""Debian's side of dependencies: apt's commands as scripts, and a source package's build dependencies."""

import re
from collections.abc import Iterable

from pytest_atesor.porter.builders.shared import words
from pytest_atesor.porter.dependency_tables import BUILD_DEPENDENCY_TOOLS

__all__ = ["HANDED_IN", "describe_script", "install_script", "parse_build_depends", "source_script"]

HANDED_IN = "ATESOR_DOWNLOADS"
"""The variable that names, inside, a directory of files that need no download."""

_APT = "apt-get -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 -o DPkg::Lock::Timeout=120"
_ARCHIVES = "/workspace/cache/apt/archives"
_INSTALL = "install -y --no-install-recommends"
_DESCRIBED = "/var/cache/apt/atesor-described"
# Of a package that lies in its cache apt looks at nothing but the size. Asked with an empty cache, it names
# every file that it would download, with its digest.
_DESCRIBE = f"""\
describe() {{
  {_APT} -o Dir::Cache::archives=/nowhere -o Acquire::ForceHash=SHA256 --print-uris -qq \
    {_INSTALL} "$@" 2>/dev/null
}}
"""
# What was handed in is copied first: its writer may be somebody else, a copy is root's alone. Then it goes,
# so that apt has its room, also where the disk was too full for a copy. The answer of describe_script serves
# the same packages once. All files are looked at in one go, and only when one is wrong each by itself.
_CHECK = f"""\
{_DESCRIBE}handed=${{{HANDED_IN}:-}}
check() {{
  [ -n "$handed" ] || ls {_ARCHIVES}/*.deb >/dev/null 2>&1 || return 0
  [ -n "$handed" ] && [ -s {_DESCRIBED} ] || describe "$@" >{_DESCRIBED} || :
  [ -z "$handed" ] || while read -r _ file _; do
    [ -f "{_ARCHIVES}/$file" ] || [ ! -f "$handed/$file" ] || echo "$handed/$file"
  done <{_DESCRIBED} | xargs -r sh -c 'cp -t {_ARCHIVES} -- "$@" || :; rm -f -- "$@" || :' -
  while read -r _ file _ digest; do
    [ ! -f "{_ARCHIVES}/$file" ] || echo "${{digest#SHA256:}}  {_ARCHIVES}/$file"
  done <{_DESCRIBED} >{_DESCRIBED}.sums
  rm -f {_DESCRIBED}
  sha256sum --check --strict --status {_DESCRIBED}.sums 2>/dev/null || while read -r line; do
    echo "$line" | sha256sum --check --strict --status 2>/dev/null && continue
    echo "${{line##*/}} is not what the package lists describe; it is downloaded again"
    rm -f "{_ARCHIVES}/${{line##*/}}"
  done <{_DESCRIBED}.sums
}}
"""
_MOST_PACKAGES = 60
_NEVER = re.compile(
    r"^(debhelper|dh-|dpkg|cdbs|quilt|devscripts|lintian|libgtest-dev|googletest|libgmock|check$|libcppunit|cppcheck|valgrind|doxygen"
    r"|texlive|python3-sphinx|graphviz|default-jdk|openjdk|gcj|maven|ghc|mono-|llvm|clang|libclang|gcc-|g\+\+-|libstdc)"
)


def _update_script(*, always: bool = False) -> str:
    """Return root's script that makes apt's lists, sources included, when there are none or ``always``."""
    return (
        "if ! apt-get indextargets --format '$(SITE)' 'Created-By: Sources' | grep -q .; then\n"
        "  for one in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do\n"
        '    [ ! -s "$one" ] || sed -n "s/^deb /deb-src /p" "$one" > /etc/apt/sources.list.d/atesor.list\n'
        "  done\n"
        "  for one in /etc/apt/sources.list.d/*.sources; do\n"
        '    [ ! -e "$one" ] || sed -i "s/^Types: deb$/Types: deb deb-src/" "$one"\n'
        "  done\n"
        "fi\n"
        'have() { ls /var/lib/apt/lists 2>/dev/null | grep -q "$1"; }\n'
        f"if {'true' if always else '! have _Packages || ! have _Sources'}; then {_APT} update; fi\n"
    )


def install_script(packages: Iterable[str], optional: Iterable[str] = ()) -> str:
    """Return root's script that installs ``packages``, and ``optional`` ones as far as they can be had.

    Lists that are older than the mirror's packages are made current once. What an earlier case downloaded,
    and what lies in the directory that the variable :data:`HANDED_IN` names, is used only where it is what
    the signed lists describe.
    """
    wanted, extra = words(packages), words(optional)
    return (
        f"export DEBIAN_FRONTEND=noninteractive\nmkdir -p {_ARCHIVES}/partial\n{_CHECK}"
        f'get() {{ check "$@" && {_APT} -o Dir::Cache::archives={_ARCHIVES} {_INSTALL} "$@"; }}\n'
        f"{_update_script()}"
        f"get{wanted}{extra} && exit 0\n"
        f"{_update_script(always=True)}"
        f"get{wanted}{extra} && exit 0\n"
        + (f'for one in{extra}; do get "$one" || echo "not installed: $one"; done\n' if extra else "")
        + (f"get{wanted}\n" if wanted else "true\n")
    )


def describe_script(packages: Iterable[str], optional: Iterable[str] = ()) -> str:
    """Return root's script that prints the files that :func:`install_script` would download, with digests.

    It asks the lists that are here, and prints nothing where there are none: making them takes time, and what
    apt says then belongs in the log. Where not all of ``optional`` are known, those of ``packages`` alone.
    """
    wanted, extra = words(packages), words(optional)
    return (
        f"{_DESCRIBE}rm -f {_DESCRIBED}\n"
        f"if describe{wanted}{extra} >{_DESCRIBED}.new; then\n"
        f"  mv {_DESCRIBED}.new {_DESCRIBED}; cat {_DESCRIBED}\n"
        f"else {f'describe{wanted} || :' if wanted else ':'}; fi\n"
    )


def source_script(name: str) -> str:
    """Return root's script that prints the build dependencies of source package ``name``, newest first."""
    return (
        f"{_update_script()}apt-cache showsrc --only-source{words([name])} 2>/dev/null "
        "| grep -E '^(Package|Version|Build-Depends(-Arch)?):' || true"
    )


def parse_build_depends(text: str, name: str) -> tuple[str, ...]:
    """Return the packages, of the first stanza for source ``name``, that an ordinary build may need.

    Libraries' ``-dev`` packages and a list of tools; documentation, test and packaging tools are left out,
    and so is what does not hold on riscv64. Of alternatives the first counts.
    """
    stanza: list[str] = []
    for line in text.splitlines():
        key, _, value = line.partition(":")
        if key == "Package" and stanza:
            break
        if key == "Package" and value.strip() != name:
            return ()
        if key.startswith("Build-Depends"):
            stanza.append(value)
    found: dict[str, None] = {}
    for clause in ",".join(stanza).split(","):
        package = _parse_clause(clause)
        if package:
            found[package] = None
    return tuple(found)[:_MOST_PACKAGES]


def _parse_clause(clause: str) -> str:
    first = clause.split("|", maxsplit=1)[0].strip()
    if re.search(r"<[^>]*!(nocheck|nodoc)", first):
        return ""
    found = re.match(r"([a-z0-9][a-z0-9+.-]+)(?::\w+)?\s*(?:\([^)]*\))?\s*(?:\[([^\]]*)\])?", first)
    if not found:
        return ""
    name, architectures = found.group(1), (found.group(2) or "").split()
    if architectures and not _holds_on_riscv64(architectures):
        return ""
    if _NEVER.search(name):
        return ""
    return name if name.endswith("-dev") or name in BUILD_DEPENDENCY_TOOLS else ""


def _holds_on_riscv64(architectures: list[str]) -> bool:
    if architectures[0].startswith("!"):
        return not {"!riscv64", "!linux-any", "!any-riscv64"} & set(architectures)
    return bool({"riscv64", "any", "linux-any", "any-riscv64"} & set(architectures))
