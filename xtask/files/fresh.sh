#!/bin/sh
# Runs in namespaces of its own: makes the folder $1 the root, and runs the script $2 there.
set -eu
root=$1
script=$2
# A root must be a mount, or nothing could be mounted within it.
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
mount -t tmpfs -o mode=755 run "$root/run"
mkdir -p "$root/opt/rust"
mount --bind -o ro "$RUST" "$root/opt/rust"
for folder in $SHARED; do
    mkdir -p "$root$folder"
    mount --rbind "$folder" "$root$folder"
done
unset RUST SHARED
# The root of the namespace, not only of this process: who enters the namespace must find the same files.
cd "$root"
pivot_root . mnt
exec chroot . /bin/sh -c "umount --lazy /mnt && $script"
