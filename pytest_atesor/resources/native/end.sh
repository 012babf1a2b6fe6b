#!/bin/sh
# end.sh NAME LABEL [WORKSPACE]: kills everything in the container of that name when it carries that label with its own
# name. Without WORKSPACE it is started again; with it the container is removed, and the workspace made anew but for the
# package cache. Exit code 3: the container is somebody else's; 4, without WORKSPACE: there is none.
name=$1 label=$2 workspace=${3-}
if found=$(podman container inspect --format "{{.Id}} {{index .Config.Labels \"$label\"}}" "$name" 2>&1); then
    [ "${found#* }" = "$name" ] || exit 3
    # a client whose reader stands still stands still itself, and holds up whoever wants to reap what it started
    clients=$(grep -lzxF -e "$name" /proc/[0-9]*/cmdline 2>/dev/null | xargs -r grep -lzxF exec 2>/dev/null)
    for one in $clients; do
        one=${one#/proc/}
        kill -s KILL "${one%/cmdline}" 2>/dev/null
    done
    if [ -z "$workspace" ]; then
        podman restart --time 0 "${found%% *}" >/dev/null
        exit
    fi
    podman rm --force --volumes --time 0 "${found%% *}" >/dev/null || exit 1
else
    case $found in *[nN]"o such"*) ;; *) echo "$found" >&2; exit 1 ;; esac
    [ -n "$workspace" ] || exit 4
fi
[ -d "$workspace" ] || exit 0
# Files of the build belong to ids that only podman's user namespace may touch. The directory itself goes, too: its owner,
# mode and access list would outlive what is in it.
anew='
cd "$1/.." && rm -rf old && mv workspace old && mkdir -m 755 workspace || exit
[ ! -d old/cache ] || [ -L old/cache ] || mv old/cache workspace/
rm -rf old
'
as_builder() { if [ "$(id -u)" = 0 ]; then "$@"; else podman unshare "$@"; fi; }
as_builder sh -c "$anew" sh "$workspace"
