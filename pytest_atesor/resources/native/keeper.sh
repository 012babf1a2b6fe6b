#!/bin/sh
# keeper.sh TOKEN SILENCE-S LABEL: stands at the far end of a batch's connection and answers each "." with a dot. After
# that many seconds of silence, or at the end of its input, it removes the batch's sandboxes; "q" is the batch's good end.
token=$1 silence_s=$2 label=$3
trap '' HUP PIPE
umask 077
keepers=${XDG_RUNTIME_DIR:-$HOME}/.atesor-keepers
mkdir -p "$keepers"
for one in "$keepers"/*; do
    [ ! -e "$one" ] || kill -0 "$(cat "$one")" 2>/dev/null || rm -f "$one"
done
echo $$ > "$keepers/$token"
reap() {
    ids=$(podman ps --all --quiet --filter "label=$label=$token" 2>/dev/null)
    [ -z "$ids" ] || podman rm --force --volumes --time 0 $ids >/dev/null 2>&1
}
# what was just being created when the line went dead is there a little later
abandon() {
    # a connection that was made again has a keeper of its own
    [ "$(cat "$keepers/$token")" = $$ ] || exit 0
    rm -f "$keepers/$token"; reap; sleep 10; reap
    exit 0
}
trap abandon TERM
echo ready
while :; do
    word=$(timeout "$silence_s" dd bs=1 count=1 2>/dev/null)
    case $word in
    .) echo . || abandon ;;
    q) rm -f "$keepers/$token"; reap; echo bye; exit 0 ;;
    *) abandon ;;
    esac
done
