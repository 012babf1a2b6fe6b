#!/bin/sh
# newest.sh: where the distribution has the newest Go and Rust. To be sourced by a script that can say().

# newest NAME-REGEX: the available package of that name with the highest version
newest() {
    for name in $(apt-cache --names-only search "^($1)\$" | cut -d' ' -f1); do
        version=$(apt-cache show --no-all-versions "$name" 2>/dev/null | sed -n 's/^Version: //p' | head -n 1)
        [ -z "$version" ] || echo "$version $name"
    done | sed 's/^[0-9]*://' | sort -V | tail -n 1 | cut -d' ' -f2
}

# Debian's backports bring a newer Go; the mirror is the one this system already uses.
add_backports() {
    codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    lists=/etc/apt/sources.list.d
    if grep -q '^ID=debian' /etc/os-release; then
        # the configuration is in one of apt's two formats
        sed -n "s/^\(deb .*[^ ]\) \+$codename \+main.*/\1 $codename-backports main/p" /etc/apt/sources.list |
            head -n 1 > $lists/backports.list || true
        cat $lists/*.sources 2> /dev/null |
            awk -v RS= -v name="$codename" '$0 ~ "Suites:[^\n]*" name "( |\n|$)" {
                sub(/Suites:[^\n]*/, "Suites: " name "-backports"); print; exit }' > $lists/backports.sources.new
        mv $lists/backports.sources.new $lists/backports.sources
    fi
    apt-get -q update && return
    say "no backports here"
    rm -f $lists/backports.*
    apt-get -q update
}
