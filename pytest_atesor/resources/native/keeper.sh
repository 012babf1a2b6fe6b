#!/bin/sh
# keeper.sh TOKEN SILENCE-S LABEL: stands at the far end of a batch's connection and answers each "." with a dot. After
# that many seconds of silence, or at the end of its input, it removes the batch's sandboxes; "q" is the batch's good end.
token=$1 silence_s=$2 label=$3
trap '' HUP PIPE
umask 077
keepers=${XDG_RUNTIME_DIR:-$HOME}/.atesor-keepers
mkdir -p "$keepers"
lives() { tr '\0' '\n' 2>/dev/null </proc/"${1##*.}"/cmdline | grep -qxF "$(basename "${1%.*}")"; }
for one in "$keepers"/*; do
    [ ! -e "$one" ] || lives "$one" || rm -f "$one"
done
me=$keepers/$token.$$
: >"$me"
# files of the build belong to ids that only podman's user namespace may touch
as_builder() { if [ "$(id -u)" = 0 ]; then "$@"; else podman unshare "$@"; fi; }
# the sandboxes, and what they left in their workspaces but for the package cache
reap() {
    form='{{.Id}} {{range .Mounts}}{{if eq .Destination "/workspace"}}{{.Source}}{{end}}{{end}}'
    ids=$(podman ps --all --quiet --filter "label=$label=$token" 2>/dev/null)
    [ -n "$ids" ] || return 0
    podman container inspect --format "$form" $ids 2>/dev/null | while read -r id place; do
        podman rm --force --volumes --time 0 "$id" </dev/null
        case $place in
        */workspace) as_builder find "$place" -mindepth 1 -maxdepth 1 ! -name cache -exec rm -rf {} + </dev/null ;;
        esac
    done >/dev/null 2>&1
}
# podman goes on making a sandbox for a client that was killed; nothing here but such a command has both words in one
is_making() {
    cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' |
        WORD="$label=$token" awk 'index($0, ENVIRON["WORD"]) { found = 1 } END { exit !found }'
}
# reap_all [CHECK]: CHECK is asked again and again, and may end the keeper
reap_all() {
    left_s=600
    if is_making; then reap; fi
    while is_making && [ "$left_s" -gt 0 ]; do
        left_s=$((left_s - 1))
        sleep 1
        "$@"
    done
    "$@"
    reap
}
# a connection that was made again has a keeper of its own, and what stands here is its batch's
leave_to_another() {
    for one in "$keepers/$token".*; do
        [ ! -e "$one" ] || ! lives "$one" || exit 0
    done
}
# a command that was on its way when the line went dead is there a little later
abandon() {
    rm -f "$me"
    leave_to_another; reap_all leave_to_another; sleep 10
    leave_to_another; reap_all leave_to_another
    exit 0
}
trap abandon TERM
echo ready
while :; do
    word=$(timeout "$silence_s" dd bs=1 count=1 2>/dev/null)
    case $word in
    .) echo . || abandon ;;
    q) reap_all; rm -f "$me"; echo bye; exit 0 ;;
    *) abandon ;;
    esac
done
