"""The shell text that fetches a recipe's source by hand and refuses one of another identity. Pure."""

import shlex

__all__ = ["format_fetch"]

_UNPACK = """\
unpack() { # FILE DIRECTORY: an archive's only directory at the top is left out
  rm -rf unpacked; mkdir -p unpacked "${2%/*}"
  case $(head -c 2 "$1") in
    PK) unzip -qo "$1" -d unpacked || [ $? = 1 ]; chmod -R u=rwX,go=rX unpacked ;; # 1: a remark
    *) tar -xf "$1" -C unpacked ;;
  esac
  if [ "$(ls -A unpacked | wc -l)" = 1 ] && [ -d "unpacked/$(ls -A unpacked)" ]
  then mv "unpacked/$(ls -A unpacked)" "$2"; else mv unpacked "$2"; fi
}"""


def format_fetch(*, url: str, name: str, commit: str | None, sha256: str | None, version: str) -> str:
    """Return the builder's lines for ``url``, "deb:PACKAGE" included; they end in ``/workspace/src/NAME``."""
    target = shlex.quote(f"/workspace/src/{name}")
    if commit is not None:
        return (
            f"set -eu\ngit init -q {target}\ncd {target}\n"
            f"git fetch -q {shlex.quote(url)} '+refs/*:refs/fetched/*' HEAD\n"
            f"git checkout -q --detach {shlex.quote(commit)}\ngit submodule update -q --init --recursive"
        )
    if sha256 is None:
        return "false # the source has no identity to hold on to"
    check = f"main=$(sha256sum * | sed -n 's/^{sha256}  //p')\n[ -n \"$main\" ]"
    package = url.removeprefix("deb:") if url.startswith("deb:") else None
    if package is None:
        get, more = f"curl -fsSL -o source {shlex.quote(url)}", ""
    else:
        wanted = shlex.quote(f"{package}={version}" if version else package)
        get = f"apt-get source --download-only --tar-only --only-source {wanted}"
        more = (
            f"\ncase $main in *.orig.tar.*) ;; *) rm -rf {target}/debian ;; esac\n"
            "for one in *.orig-*.tar.*; do case $one in *.asc|'*.orig-'*) continue ;; esac\n"
            f'  part=${{one##*.orig-}}; unpack "$one" {target}/"${{part%.tar.*}}"; done'
        )
    return (
        f"set -eu\n{_UNPACK}\nmkdir -p /workspace/home/source && cd /workspace/home/source\n"
        f'{get}\n{check}\nunpack "$main" {target}{more}'
    )
