#!/bin/sh
# probe.sh WORKDIR: says what the native target must know of this machine, NAME=VALUE, one a line. Changes nothing but
# that it makes the work directory, which counts from the home.
work=$1
case $work in /*) ;; *) work=$HOME/$work ;; esac
say() { printf '%s=%s\n' "$1" "$(printf %s "$2" | tr '\n' ' ')"; }
has() { command -v "$1" >/dev/null 2>&1 && say "has_$1" 1; }
say probe 1
say architecture "$(uname -m)"
say kernel "$(uname -r)"
say boot "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
say home "$(readlink -f "$HOME")"
say user "$(id -un)"
say uid "$(id -u)"
say clock "$(date +%s)"
say cores "$(nproc)"
say memory_kb "$(sed -n 's/^MemTotal: *\([0-9]*\) kB$/\1/p' /proc/meminfo)"
tree=/proc/device-tree
say model "$(cat $tree/model /sys/class/dmi/id/product_name 2>/dev/null | tr '\0' '\n' | head -n 1)"
virtual=$(systemd-detect-virt --vm 2>/dev/null)
case $virtual in ''|none) virtual=$(cat $tree/compatible $tree/model 2>/dev/null | tr '\0' '\n' | grep -om1 qemu) ;; esac
say virtual "$virtual"
for one in rsync podman flock timeout tar newuidmap newgidmap pasta slirp4netns; do has $one; done
[ ! -r /dev/net/tun ] || [ ! -w /dev/net/tun ] || say has_tun 1
say subuid "$(sed -n "s/^\($(id -un)\|$(id -u)\):[0-9]*:\([0-9]*\)$/\2/p" /etc/subuid 2>/dev/null)"
say subgid "$(sed -n "s/^\($(id -un)\|$(id -u)\):[0-9]*:\([0-9]*\)$/\2/p" /etc/subgid 2>/dev/null)"
say podman "$(podman --version 2>/dev/null)"
form='rootless={{.Host.Security.Rootless}}|cgroups={{.Host.CgroupsVersion}}'
form="$form|controllers={{.Host.CgroupControllers}}|manager={{.Host.CgroupManager}}"
form="$form|storage={{.Store.GraphRoot}}|runtime={{.Host.OCIRuntime.Name}}"
info=$(timeout 150 podman info --format "$form" 2>/dev/null)
case $info in
rootless=*) printf '%s\n' "$info" | tr '|' '\n' ;;
*) say podman_error "$(timeout 150 podman info 2>&1 >/dev/null | tail -n 1)" ;;
esac
hard() { sed -n "s/^Max $1  *[^ ]*  *\\([^ ]*\\).*/\\1/p" /proc/self/limits; } # not every ulimit knows processes
say limits "$(hard 'open files') $(hard processes) $(cat /proc/sys/kernel/pid_max)"
mkdir -p "$work" 2>/dev/null
say work "$(readlink -f "$work" 2>/dev/null || printf %s "$work")"
[ ! -w "$work" ] || say is_writable 1
place() { # what is not there yet will be on the file system of what is above it
    spot=$2
    while [ ! -d "$spot" ]; do spot=$(dirname "$spot"); done
    df -Pk "$spot" 2>/dev/null | { read -r _ && read -r _ _ _ free _ && say "$1_free_kb" "$free"; }
    say "$1_device" "$(stat -c %d "$spot" 2>/dev/null)"
}
place work "$work"
store=$(printf '%s\n' "$info" | tr '|' '\n' | sed -n 's/^storage=//p')
[ -z "$store" ] || place store "$store"
