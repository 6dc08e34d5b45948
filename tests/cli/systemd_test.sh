#!/usr/bin/env bash
# Proves that the units which `make install PREFIX=~/.local` leaves work under a real service
# manager of an ordinary user: the first client starts the daemon, a restart keeps what the arena
# holds, a kill loses nothing of the disk, and the daemon has the restrictions of its unit. Needs
# systemd's programs, and root, which makes a place for the manager in the control groups.
skip() {
    echo "skipped: $1"
    exit 77
}
manager=/lib/systemd/systemd
[ -x $manager ] && command -v systemctl >/dev/null || skip "no systemd"
[ "$(id -u)" = 0 ] || skip "not root"
if [ "${1:-}" != apart ]; then # a /run of its own, with what systemd looks for
    unshare --mount true 2>/dev/null || skip "no right to mount"
    exec unshare --mount bash "$0" apart
fi
. "$(dirname "$0")/common.sh"
! grep -q '^SKYMEM_SANITIZE:STRING=.' "$build/CMakeCache.txt" || skip "a sanitized build"

# ---- the manager ----

user=65534 # nobody
groups=()
clean() {
    as systemctl --user exit >/dev/null 2>&1
    wait
    for group in "${groups[@]}"; do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
    done
    rm -rf "$work"
}
as() {
    setpriv --reuid $user --regid $user --clear-groups env -u DBUS_SESSION_BUS_ADDRESS \
        XDG_RUNTIME_DIR="$work/run" PATH="$HOME/.local/bin:$PATH" "$@"
}
# In groups of its own: it makes one for each service.
manage() {
    local group
    for group in "${groups[@]}"; do
        echo "$BASHPID" >"$group/init/cgroup.procs" || return
    done
    cd "$work" || return
    as $manager --user --log-target=console
}
trap clean EXIT
mount -t tmpfs none /run && mkdir -p /run/systemd/system || skip "no right to mount"
for hierarchy in /sys/fs/cgroup /sys/fs/cgroup/systemd /sys/fs/cgroup/unified; do
    [ -e "$hierarchy/cgroup.procs" ] || continue
    mkdir -p "$hierarchy/skymem-$$/init" 2>/dev/null || skip "no right to make control groups"
    chown -R $user "$hierarchy/skymem-$$"
    groups+=("$hierarchy/skymem-$$")
done
mkdir -p -m 700 "$work/run" "$HOME/.config/skymem"
cmake --install "$build" --prefix "$HOME/.local" >/dev/null || fail "not installed"
export XDG_CONFIG_HOME=$HOME/.config
echo 'store: mem:64MiB' >"$XDG_CONFIG_HOME/skymem/skymemd.yaml"
head -c 300000 /dev/urandom >"$work/value"
chown -R $user "$work"
manage >"$work/manager" 2>&1 &
until as systemctl --user is-system-running >"$work/state" 2>/dev/null; do
    kill -0 $! 2>/dev/null || skip "systemd does not run here: $(tail -n 1 "$work/manager")"
    sleep 0.1
done

# ---- the units ----

main_process() { as systemctl --user show -p MainPID --value skymemd; }
stands() {
    expect 0 as skymem get value --store shm:auto
    cmp -s "$work/out" "$work/value" || fail "another value $1"
}

expect 0 as systemctl --user enable --now skymemd.socket
expect 0 as skymem put value "$work/value" --store shm:auto
process=$(main_process)
[ "${process:-0}" != 0 ] || {
    fail "no daemon: $(as systemctl --user status skymemd)"
    finish
}
stands "at first"
for line in 'NoNewPrivs:\s1' 'Seccomp:\s2'; do
    grep -q "^$line$" "/proc/$process/status" || fail "not restricted: $line"
done

expect 0 as systemctl --user restart skymemd
[ "$(main_process)" != "$process" ] || fail "it did not restart"
stands "after a restart, which keeps the arena"

process=$(main_process)
expect 0 as systemctl --user reload skymemd
[ "$(main_process)" = "$process" ] || fail "it does not reload"
stands "after a reload"

echo "store: [mem:64MiB, \"disk:$XDG_CACHE_HOME/skymem?max=64MiB\"]" \
    >"$XDG_CONFIG_HOME/skymem/skymemd.yaml"
expect 0 as systemctl --user restart skymemd
expect 0 as skymem put value "$work/value" --store shm:auto
for _ in $(seq 600); do # the disk gets it behind the answer
    ! as skymem get value --store "disk:$XDG_CACHE_HOME/skymem" >/dev/null 2>&1 || break
    sleep 0.1
done
process=$(main_process)
[ "${process:-0}" = 0 ] || kill -KILL "$process"
stands "after a kill, from the disk"

expect 0 as systemctl --user stop skymemd.socket skymemd
result=$(as systemctl --user show -p Result --value skymemd)
[ "$result" = success ] || fail "it was stopped with $result"
[ ! -e "$work/run/skymem/skymemd.sock" ] || fail "its socket is left"
finish
