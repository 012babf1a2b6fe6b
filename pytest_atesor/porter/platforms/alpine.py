"""Alpine: apk, and a table of what builds ask for most.

Alpine publishes no index of files that could be downloaded, so a file that is not in the table is not found
and the need is named in the reason. Nothing of this was tried on a real Alpine sandbox yet.
"""

import shlex
from collections.abc import Iterable, Mapping

from pytest_atesor.porter.builders.shared import words
from pytest_atesor.porter.platforms.interface import Profile

__all__ = ["ALPINE"]

_PC = "usr/lib/pkgconfig"

# Package to its headers, pkg-config modules (name.pc), libraries (libname.so), commands (bin/name), CMake
# packages and macros.
_OWNERS: Mapping[str, str] = {
    "acl-dev": "sys/acl.h acl/libacl.h libacl.pc libacl.so",
    "alsa-lib-dev": "alsa/asoundlib.h alsa.pc libasound.so",
    "argp-standalone": "argp.h",
    "attr-dev": "attr/attributes.h libattr.pc libattr.so",
    "autoconf-archive": "ax_pthread.m4 ax_check_compile_flag.m4 ax_cxx_compile_stdcxx.m4 ax_append_flag.m4",
    "boost-dev": "boost/version.hpp",
    "brotli-dev": "brotli/decode.h libbrotlidec.pc libbrotlienc.pc",
    "bsd-compat-headers": "sys/queue.h sys/tree.h sys/cdefs.h",
    "bzip2-dev": "bzlib.h bzip2.pc libbz2.so",
    "c-ares-dev": "ares.h libcares.pc libcares.so",
    "cairo-dev": "cairo/cairo.h cairo.pc",
    "confuse-dev": "confuse.h libconfuse.pc",
    "curl-dev": "curl/curl.h libcurl.pc libcurl.so",
    "dbus-dev": "dbus-1.0/dbus/dbus.h dbus-1.pc",
    "doxygen": "bin/doxygen",
    "elfutils-dev": "libelf.h gelf.h libelf.pc libdw.pc libelf.so",
    "eudev-dev": "libudev.h libudev.pc libudev.so",
    "expat-dev": "expat.h expat.pc libexpat.so",
    "ffmpeg-dev": "libavcodec/avcodec.h libavcodec.pc libavformat.pc libavutil.pc libswscale.pc",
    "fftw-dev": "fftw3.h fftw3.pc libfftw3.so",
    "file-dev": "magic.h libmagic.pc libmagic.so",
    "flac-dev": "FLAC/all.h flac.pc",
    "fmt-dev": "fmt/format.h fmt.pc",
    "freetype-dev": "freetype2/ft2build.h freetype2.pc",
    "fts-dev": "fts.h musl-fts.pc",
    "fuse-dev": "fuse.h fuse.pc",
    "fuse3-dev": "fuse3/fuse.h fuse3.pc",
    "gdbm-dev": "gdbm.h libgdbm.so",
    "gettext-dev": "libintl.h gettext.m4 bin/msgfmt bin/autopoint",
    "glib-dev": "glib-2.0/glib.h glib-2.0.pc gio-2.0.pc gobject-2.0.pc gthread-2.0.pc bin/glib-genmarshal",
    "gmp-dev": "gmp.h gmp.pc libgmp.so",
    "gnutls-dev": "gnutls/gnutls.h gnutls.pc libgnutls.so",
    "gperf": "bin/gperf",
    "gtk+3.0-dev": "gtk-3.0/gtk/gtk.h gtk+-3.0.pc",
    "gtest-dev": "gtest/gtest.h gtest.pc",
    "gzip": "bin/gzip",
    "harfbuzz-dev": "harfbuzz/hb.h harfbuzz.pc",
    "help2man": "bin/help2man",
    "hiredis-dev": "hiredis/hiredis.h hiredis.pc",
    "icu-dev": "unicode/utypes.h icu-uc.pc icu-i18n.pc",
    "intltool": "bin/intltoolize intltool.m4",
    "jansson-dev": "jansson.h jansson.pc libjansson.so",
    "json-c-dev": "json-c/json.h json-c.pc",
    "krb5-dev": "krb5.h krb5.pc",
    "libarchive-dev": "archive.h libarchive.pc libarchive.so",
    "libbsd-dev": "bsd/string.h libbsd.pc libbsd-overlay.pc libbsd.so",
    "libcap-dev": "sys/capability.h libcap.pc libcap.so",
    "libconfig-dev": "libconfig.h libconfig.pc",
    "libedit-dev": "histedit.h libedit.pc libedit.so",
    "libev-dev": "ev.h libev.so",
    "libevent-dev": "event2/event.h event.h libevent.pc libevent.so",
    "libffi-dev": "ffi.h libffi.pc libffi.so",
    "libgcrypt-dev": "gcrypt.h libgcrypt.pc libgcrypt.so libgcrypt.m4",
    "libgit2-dev": "git2.h libgit2.pc",
    "libice-dev": "X11/ICE/ICElib.h ice.pc",
    "libidn2-dev": "idn2.h libidn2.pc",
    "libjpeg-turbo-dev": "jpeglib.h libjpeg.pc libjpeg.so",
    "libmnl-dev": "libmnl/libmnl.h libmnl.pc",
    "libnl3-dev": "libnl3/netlink/netlink.h libnl-3.0.pc libnl-genl-3.0.pc",
    "libogg-dev": "ogg/ogg.h ogg.pc",
    "libpcap-dev": "pcap.h pcap/pcap.h libpcap.pc libpcap.so",
    "libpng-dev": "png.h libpng.pc libpng16.pc libpng.so",
    "libpq-dev": "libpq-fe.h libpq.pc",
    "libseccomp-dev": "seccomp.h libseccomp.pc libseccomp.so",
    "libsndfile-dev": "sndfile.h sndfile.pc",
    "libsodium-dev": "sodium.h libsodium.pc libsodium.so",
    "libssh-dev": "libssh/libssh.h libssh.pc",
    "libssh2-dev": "libssh2.h libssh2.pc",
    "libtool": "libtool.m4 ltdl.m4 ltdl.h bin/libtoolize",
    "libunistring-dev": "unistr.h libunistring.so",
    "libusb-dev": "libusb-1.0/libusb.h libusb-1.0.pc",
    "libuv-dev": "uv.h libuv.pc",
    "libvorbis-dev": "vorbis/codec.h vorbis.pc",
    "libwebp-dev": "webp/decode.h libwebp.pc",
    "libx11-dev": "X11/Xlib.h x11.pc libX11.so",
    "libxcb-dev": "xcb/xcb.h xcb.pc",
    "libxcursor-dev": "X11/Xcursor/Xcursor.h xcursor.pc",
    "libxext-dev": "X11/extensions/shape.h xext.pc",
    "libxfixes-dev": "X11/extensions/Xfixes.h xfixes.pc",
    "libxft-dev": "X11/Xft/Xft.h xft.pc",
    "libxi-dev": "X11/extensions/XInput2.h xi.pc",
    "libxinerama-dev": "X11/extensions/Xinerama.h xinerama.pc",
    "libxkbcommon-dev": "xkbcommon/xkbcommon.h xkbcommon.pc",
    "libxml2-dev": "libxml2/libxml/parser.h libxml-2.0.pc libxml2.so",
    "libxrandr-dev": "X11/extensions/Xrandr.h xrandr.pc",
    "libxrender-dev": "X11/extensions/Xrender.h xrender.pc",
    "libxslt-dev": "libxslt/xslt.h libxslt.pc",
    "linux-pam-dev": "security/pam_appl.h libpam.so pam.pc",
    "lua5.4-dev": "lua5.4/lua.h lua5.4.pc",
    "lz4-dev": "lz4.h liblz4.pc liblz4.so",
    "lzo-dev": "lzo/lzo1x.h lzo2.pc liblzo2.so",
    "mbedtls-dev": "mbedtls/ssl.h libmbedtls.so",
    "mesa-dev": "GL/gl.h EGL/egl.h GLES2/gl2.h gl.pc egl.pc glesv2.pc libGL.so",
    "mpfr-dev": "mpfr.h mpfr.pc libmpfr.so",
    "musl-obstack-dev": "obstack.h musl-obstack.pc",
    "nasm": "bin/nasm",
    "ncurses-dev": "ncurses.h curses.h term.h ncurses.pc ncursesw.pc libncurses.so libncursesw.so panel.h",
    "nettle-dev": "nettle/sha2.h nettle.pc hogweed.pc",
    "nghttp2-dev": "nghttp2/nghttp2.h libnghttp2.pc",
    "openssl-dev": "openssl/ssl.h openssl.pc libssl.pc libcrypto.pc libssl.so libcrypto.so",
    "pango-dev": "pango-1.0/pango/pango.h pango.pc pangocairo.pc",
    "pcre-dev": "pcre.h libpcre.pc libpcre.so",
    "pcre2-dev": "pcre2.h libpcre2-8.pc libpcre2-8.so",
    "perl": "bin/perl",
    "popt-dev": "popt.h popt.pc libpopt.so",
    "protobuf-dev": "google/protobuf/message.h protobuf.pc bin/protoc",
    "pulseaudio-dev": "pulse/pulseaudio.h libpulse.pc",
    "python3-dev": "python3.12/Python.h python3.pc bin/python3-config",
    "re2c": "bin/re2c",
    "readline-dev": "readline/readline.h readline.pc libreadline.so",
    "ruby": "bin/ruby",
    "scdoc": "bin/scdoc scdoc.pc",
    "sdl2-dev": "SDL2/SDL.h sdl2.pc",
    "simde": "simde/x86/sse2.h",
    "snappy-dev": "snappy.h libsnappy.so",
    "speexdsp-dev": "speex/speex_resampler.h speexdsp.pc",
    "sqlite-dev": "sqlite3.h sqlite3.pc libsqlite3.so",
    "swig": "bin/swig",
    "talloc-dev": "talloc.h talloc.pc",
    "texinfo": "bin/makeinfo bin/texi2any",
    "tiff-dev": "tiffio.h libtiff-4.pc libtiff.so",
    "util-linux-dev": "uuid/uuid.h blkid/blkid.h libmount/libmount.h uuid.pc blkid.pc mount.pc libuuid.so",
    "vala": "bin/valac",
    "wayland-dev": "wayland-client.h wayland-client.pc wayland-cursor.pc wayland-egl.pc bin/wayland-scanner",
    "xmlto": "bin/xmlto",
    "xxd": "bin/xxd",
    "xxhash-dev": "xxhash.h libxxhash.pc libxxhash.so",
    "xz-dev": "lzma.h liblzma.pc liblzma.so",
    "yajl-dev": "yajl/yajl_parse.h yajl.pc libyajl.so",
    "yaml-dev": "yaml.h yaml-0.1.pc libyaml.so",
    "yasm": "bin/yasm",
    "zeromq-dev": "zmq.h libzmq.pc libzmq.so",
    "zlib-dev": "zlib.h zlib.pc libz.so",
    "zstd-dev": "zstd.h libzstd.pc libzstd.so",
}

_NAMES: Mapping[str, str] = {"libclang-dev": "clang-dev", "libsimde-dev": "simde"}


def _place(word: str) -> str:
    """Return where a file stands, by its short name in the table."""
    if word.startswith("bin/"):
        return f"usr/{word}"
    if word.endswith(".pc"):
        return f"{_PC}/{word}"
    if word.endswith(".so"):
        return f"usr/lib/{word}"
    return f"usr/share/aclocal/{word}" if word.endswith(".m4") else f"usr/include/{word}"


def _plan_installation(packages: Iterable[str], optional: Iterable[str]) -> str:
    wanted, extra = words(packages), words(optional)
    return (
        (f"apk add --quiet{wanted}\n" if wanted else "")
        + (
            f'for one in{extra}; do apk add --quiet "$one" || echo "not installed: $one"; done\n'
            if extra
            else ""
        )
        + "true\n"
    )


def _plan_versions(packages: Iterable[str]) -> str:
    return (
        f"for one in{words(packages)}; do\n"
        '  apk info -v -e "$one" 2>/dev/null | sed -n "s/^\\(.*\\)-\\([0-9].*-r[0-9]*\\)$/\\1=\\2/p"\ndone\n'
    )


ALPINE = Profile(
    install=_plan_installation,
    pinned=lambda name, version: f"{name}={version}",
    plan_by_hand=lambda packages: shlex.join(["apk", "add", *packages]),
    versions=_plan_versions,
    refresh="apk update",
    files={_place(word): package for package, line in _OWNERS.items() for word in line.split()},
    names=_NAMES,
)
