# In the root, in the directory of an image: modules/ has the modules that mount the guest's root, in their order.
# Makes `initrd`, and of `bzImage` the image inside of it, which QEMU starts without emulating its decompression.
tree=$(mktemp -d)
mkdir "$tree/bin" "$tree/dev" "$tree/proc" "$tree/lower" "$tree/upper" "$tree/new" "$tree/modules"
cp /usr/bin/busybox "$tree/bin/"
cp init "$tree/init"
chmod 755 "$tree/init"
for module in modules/*; do
    case $module in
    *.xz) xz --decompress --stdout "$module" >"$tree/${module%.xz}" ;;
    *.zst) zstd --decompress --stdout --quiet "$module" >"$tree/${module%.zst}" ;;
    *.gz) gzip --decompress --stdout "$module" >"$tree/${module%.gz}" ;;
    *.ko) cp "$module" "$tree/$module" ;;
    esac
done
(cd "$tree" && find . -mindepth 1 | cpio --create --format=newc --owner=0:0 --quiet) >initrd
rm -r "$tree"

# Documentation/arch/x86/boot.rst: setup_sects, payload_offset, payload_length. The payload's last four bytes say how long its contents are.
[ -e bzImage ] || exit 0
sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 bzImage)
set -- $(od -An -tu4 -j $((0x248)) -N 8 bzImage)
head -c $(((sectors + 1) * 512 + $1 + $2 - 4)) bzImage | tail -c $(($2 - 4)) >payload
xz --decompress --stdout payload >vmlinux 2>/dev/null || zstd --decompress --stdout --quiet payload >vmlinux 2>/dev/null ||
    gzip --decompress --stdout payload >vmlinux 2>/dev/null || cp bzImage vmlinux
rm payload
