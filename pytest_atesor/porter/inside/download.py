"""Download one file over http or https: ``python3 -I download.py REQUEST OUT``; also imported on the host.

REQUEST is a JSON file with url, headers, longest_bytes, limit_s. The last line on standard output is a JSON
object with sha256 and size_bytes, or with trouble ("unreachable", "broken") and reason. Exit code 0 or 3.
Standard library only, Python 3.9 and newer.
"""

import hashlib
import http.client
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, Any, BinaryIO

MARK = "@source-result "
STALL_S = 60
TRIES = 3
PAUSE_S = 2
CHUNK = 256 * 1024
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})


class DownloadError(Exception):
    """A download that failed; ``trouble`` is "unreachable" or "broken"."""

    def __init__(self, trouble: str, reason: str) -> None:
        """Keep both parts."""
        super().__init__(reason)
        self.trouble = trouble


class _NoDowngrade(urllib.request.HTTPRedirectHandler):
    """Follows redirects, but never from https to http."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: "IO[bytes]",
        code: int,
        msg: str,
        headers: http.client.HTTPMessage,
        newurl: str,
    ) -> "urllib.request.Request | None":
        """Refuse what would give up encryption."""
        if req.full_url.lower().startswith("https:") and not newurl.lower().startswith("https:"):
            raise DownloadError("unreachable", "the server redirects from https to http, which is refused")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def download(
    request: "dict[str, Any]", out: BinaryIO, proxies: "dict[str, str] | None" = None
) -> "dict[str, Any]":
    """Write the body to ``out`` and return sha256 and size. Raises DownloadError."""
    end = time.monotonic() + float(request["limit_s"])
    for left in range(TRIES - 1, -1, -1):
        out.seek(0)
        out.truncate()
        try:
            return _download_once(request, out, end, proxies)
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            if error.code not in TRANSIENT or not left:
                raise DownloadError("unreachable", reason) from None
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            cause = getattr(error, "reason", error)
            if isinstance(cause, ssl.SSLCertVerificationError) or not left:
                raise DownloadError("unreachable", f"{cause or type(error).__name__}") from None
            if _is_unknown_host(cause):
                raise DownloadError("unreachable", f"{cause}") from None
        if time.monotonic() + PAUSE_S >= end:
            break
        time.sleep(PAUSE_S)
    raise DownloadError("unreachable", "no answer in time")


def _is_unknown_host(cause: object) -> bool:
    return "not known" in str(cause) or "No address" in str(cause)


def _download_once(
    request: "dict[str, Any]", out: BinaryIO, end: float, proxies: "dict[str, str] | None"
) -> "dict[str, Any]":
    if not request["url"].lower().startswith(("http://", "https://")):
        raise DownloadError("broken", "the scheme is neither https nor http")
    headers = {"User-Agent": "pytest-atesor", "Accept": "*/*"}
    ask = urllib.request.Request(request["url"], headers=headers)  # noqa: S310 - the scheme was checked
    for name, value in request.get("headers", {}).items():
        ask.add_unredirected_header(name, value)  # credentials stay with the host that they are for
    opener = urllib.request.build_opener(_NoDowngrade, urllib.request.ProxyHandler(proxies))
    digest = hashlib.sha256()
    size = 0
    with opener.open(ask, timeout=STALL_S) as answer:
        announced = answer.headers.get("Content-Length")
        while chunk := answer.read(CHUNK):
            size += len(chunk)
            if size > request["longest_bytes"]:
                raise DownloadError("broken", f"it is larger than {request['longest_bytes']} bytes")
            if time.monotonic() > end:
                raise DownloadError(
                    "unreachable", f"the download was not done after {request['limit_s']:.0f} s"
                )
            digest.update(chunk)
            out.write(chunk)
    if announced and announced.isdigit() and int(announced) != size:
        raise ConnectionError(f"the transfer broke after {size} of {announced} bytes")
    return {"sha256": digest.hexdigest(), "size_bytes": size}


def tell(result: "dict[str, Any]") -> None:
    """Print a result as the last line."""
    print(MARK + json.dumps(result))  # noqa: T201 - printing is how this program answers


def main(arguments: "list[str]") -> int:
    """Run one download as the module's docstring says."""
    request = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    try:
        with Path(arguments[1]).open("xb") as out:
            result = download(request, out)
    except DownloadError as error:
        tell({"trouble": error.trouble, "reason": str(error)})
        return 3
    tell(result)
    return 0


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main(sys.argv[1:]))
