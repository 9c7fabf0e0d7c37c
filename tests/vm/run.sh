#!/usr/bin/env bash
# Boots the distribution's kernel under QEMU with cgroup v2 alone and runs tests/vm/guest.sh there: what a machine with
# v1 controllers cannot show. Takes half a minute; needs the packages of the section `vm` and the package index.
#   tests/vm/run.sh [build/release/bin]
# CELLA_VM_KERNEL names another kernel image (vmlinuz) to boot.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
programs=$(cd "${1:-$here/../../build/release/bin}" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cd "$work"
if [[ -n ${CELLA_VM_KERNEL-} ]]; then
  mkdir -p kernel/boot
  cp "$CELLA_VM_KERNEL" kernel/boot/vmlinuz-given
else
  kernel=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
  echo "== fetching $kernel" >&2
  apt-get download -qq "$kernel" 2>/dev/null
  dpkg-deb -x "$kernel"_*.deb kernel
fi

root=$work/root
mkdir -p "$root"/{bin,usr/bin,cella,etc,proc,sys,dev,newroot}
cp /bin/busybox "$root/bin/busybox"
for applet in $(/bin/busybox --list); do
  [[ $applet == busybox ]] || ln -sf busybox "$root/bin/$applet"
done
# Guests see /usr only.
cp /bin/busybox "$root/usr/bin/busybox"
for applet in sh cat dd sleep; do ln -s busybox "$root/usr/bin/$applet"; done
cp -r "$programs"/{cella,cella-launch,languages.toml,runners} "$root/cella/"
# A Python for sessions: the distribution's, with its standard library and nothing else.
cp --parents -L /usr/bin/python3 "$root"
ldd /usr/bin/python3 | grep -oE '/[^ ]+' | while read -r library; do cp --parents -L "$library" "$root"; done
version=$(/usr/bin/python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
mkdir -p "$root/usr/lib"
cp -r "/usr/lib/$version" "$root/usr/lib/"
rm -rf "$root/usr/lib/$version"/{test,idlelib,lib2to3,config-*,dist-packages,ensurepip,pydoc_data}
find "$root/usr/lib/$version/lib-dynload" -name '*.so' -exec ldd {} + 2>/dev/null | grep -oE '=> /[^ ]+' | cut -c4- | sort -u |
  while read -r library; do cp --parents -L "$library" "$root"; done
cp "$(command -v setpriv)" "$root/usr/bin/"
ldd "$(command -v setpriv)" | grep -oE '/[^ ]+' | while read -r library; do cp --parents -L "$library" "$root"; done
cp "$here/guest.sh" "$root/guest"
# An initramfs cannot be left by pivot_root, so its content moves to a tmpfs first.
cat >"$root/init" <<'INIT'
#!/bin/sh
mount -t tmpfs tmpfs /newroot
cp -a /bin /usr /cella /etc /lib /lib64 /guest /newroot/ 2>/dev/null
mkdir -p /newroot/proc /newroot/sys /newroot/dev /newroot/tmp /newroot/root
chmod 1777 /newroot/tmp
exec switch_root /newroot /guest
INIT
chmod +x "$root/init" "$root/guest"
(cd "$root" && find . | cpio --quiet -o -H newc | gzip -1) >initrd.gz

timeout 120 qemu-system-x86_64 -cpu max -m 1024 -smp 2 -nographic -no-reboot -kernel kernel/boot/vmlinuz-* -initrd initrd.gz \
  -append 'console=ttyS0 quiet cgroup_no_v1=all panic=-1 random.trust_cpu=on' </dev/null 2>&1 | tr -d '\r' | sed -n '/kernel [0-9]/,$p' | tee log
grep -qE '^vm: [0-9]+ passed, 0 failed$' log
