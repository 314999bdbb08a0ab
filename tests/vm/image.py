"""What a machine boots: a kernel and a small file system with its modules, made once and kept.

The kernel is the distribution's own: one of /boot that has the modules, else fetched as a package and unpacked
into the cache. Nothing is installed and nobody has to be root.
Always true: an image in the cache is complete, because it appears under its name only when it is.
"""

import fcntl
import gzip
import hashlib
import lzma
import os
import platform
import re
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path

GUEST = Path(__file__).resolve().parent / "guest"
# Loaded in this order, each after what it depends on. rdma_rxe asks for the algorithm crc32 by its name, which
# no dependency lists; newer kernels have it built in, so this one may be missing.
MODULES = ["virtio_pci", "9p", "9pnet_virtio", "overlay", "crc32_generic", "ib_uverbs", "rdma_ucm", "rdma_rxe", "dummy",
           "virtio_net", "sch_netem", "veth"]
OPTIONAL_MODULES = {"crc32_generic"}
# Where a tool comes from. QEMU and busybox make the machine, kmod its list of modules, iproute2 its network.
TOOLS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "depmod": "kmod", "ip": "iproute2",
         "tc": "iproute2", "rdma": "iproute2", "bash": "bash"}
KERNEL_PACKAGES = ["linux-image-amd64", "linux-image-generic"]  # Debian, Ubuntu
FETCH_SECONDS = 120


class Unavailable(Exception):
    """No machine can be started here; the text says why and what to install."""


def add_system_folders():
    """Programs of the administrator are not on everybody's path."""
    os.environ["PATH"] = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"


def missing_packages():
    missing = {package for tool, package in TOOLS.items() if not shutil.which(tool)}
    busybox = shutil.which("busybox")
    if busybox and b"/ld-linux" in Path(busybox).read_bytes():
        missing.add("busybox-static")
    if not list(Path("/usr/lib").glob("*/libibverbs/librxe-rdmav*.so")):
        missing.add("ibverbs-providers")
    return sorted(missing)


def check_host():
    if platform.machine() != "x86_64":
        raise Unavailable(f"the virtual machines are made for x86_64, this is {platform.machine()}")
    missing = missing_packages()
    if missing:
        raise Unavailable("no virtual machines; to have them: apt-get install " + " ".join(missing))


def cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("LCI_VM_CACHE") or Path(home) / "lci-vm")


def image_folder():
    """Named by what goes into the image: other contents are another image."""
    digest = hashlib.sha256(Path(__file__).read_bytes() + (GUEST / "init").read_bytes())
    digest.update(os.environ.get("LCI_VM_KERNEL", "").encode())
    return cache_folder() / digest.hexdigest()[:16]


def find_image():
    folder = image_folder()
    return folder if (folder / "kernel").exists() else None


def prepare():
    """The folder with `kernel` and `initramfs`, made now if need be."""
    folder = image_folder()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with open(folder.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left_behind in folder.parent.glob("making-*"):
            shutil.rmtree(left_behind)
        if not find_image():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="making-") as scratch:
                made = Path(scratch) / "image"
                made.mkdir()
                make_image(made, Path(scratch))
                shutil.rmtree(folder, ignore_errors=True)
                made.rename(folder)
    return folder


def make_image(out, scratch):
    root, version = find_kernel() or fetch_kernel(scratch)
    (out / "initramfs").write_bytes(archive(initramfs_files(root, version, scratch)))
    (out / "version").write_text(version + "\n")
    (out / "kernel").write_bytes(unpack_kernel((root / "boot" / f"vmlinuz-{version}").read_bytes()))


def modules_of(root, version):
    for folder in (root / "lib/modules" / version, root / "usr/lib/modules" / version):
        if list(folder.glob("kernel/drivers/infiniband/sw/rxe/*")):
            return folder
    return None


def find_kernel():
    """(root, version) of the newest installed kernel with soft-RoCE that can be read, or None."""
    root = Path(os.environ.get("LCI_VM_KERNEL") or "/")

    def age(path):
        return [int(part) for part in re.findall(r"\d+", path.name)]

    for path in sorted(root.glob("boot/vmlinuz-*"), key=age, reverse=True):
        version = path.name[len("vmlinuz-"):]
        if modules_of(root, version) and os.access(path, os.R_OK):
            return root, version
    return None


def run_quietly(*command, **options):
    return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, **options)


def kernel_packages():
    """What to fetch: the packages behind the distribution's name for its kernel of the day."""
    for name in KERNEL_PACKAGES:
        found = re.findall(r"Depends: (linux-(?:image|modules)[^ \n]*)", run_quietly("apt-cache", "depends", name).stdout)
        if not found:
            continue
        image = next(package for package in found if "-image-" in package)
        # Ubuntu keeps the modules in packages of their own.
        inner = re.findall(r"Depends: (linux-modules-[^ \n]*)", run_quietly("apt-cache", "depends", image).stdout)
        return list(dict.fromkeys([*found, *inner]))
    return []


def fetch_packages(folder):
    """The kernel's packages, in `folder`. They are kept: another image may be made of them without a network."""
    advice = "no kernel with soft-RoCE; to have one: apt-get install " + KERNEL_PACKAGES[0]
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise Unavailable(f"{advice} (or point LCI_VM_KERNEL to a folder with boot/ and lib/modules/)")
    packages = kernel_packages()
    if not packages:
        raise Unavailable(f"{advice} (the package lists do not know it; apt-get update fetches them)")
    try:
        done = run_quietly("apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=1", "-o",
                           "Acquire::http::Timeout=10", "download", *packages, cwd=folder, timeout=FETCH_SECONDS)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{advice} (fetching {' '.join(packages)}: not done in {FETCH_SECONDS} s)") from None
    if done.returncode != 0:
        said = done.stdout.strip().splitlines()[-1:]
        raise Unavailable(f"{advice} (fetching {' '.join(packages)}: {' '.join(said)})")


def fetch_kernel(scratch):
    packages = cache_folder() / "packages"
    if not packages.exists():
        arriving = scratch / "packages"
        arriving.mkdir()
        fetch_packages(arriving)
        arriving.rename(packages)
    root = scratch / "root"
    for package in packages.glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    for image in root.glob("boot/vmlinuz-*"):
        version = image.name[len("vmlinuz-"):]
        if modules_of(root, version):
            return root, version
    raise Unavailable(f"no kernel with soft-RoCE in {packages}; remove that folder to fetch another")


def module_files(root, version, scratch):
    """Paths of the modules in the order of loading."""
    base = scratch / "depmod"
    folder = base / "lib/modules" / version
    folder.mkdir(parents=True)
    for entry in modules_of(root, version).iterdir():
        (folder / entry.name).symlink_to(entry.resolve())
    # A file system whose /usr is not merged is found at the second place only.
    (base / "usr").mkdir()
    (base / "usr/lib").symlink_to(base / "lib")
    subprocess.run(["depmod", "-b", base, version], check=True)
    paths = []
    for name in MODULES:
        listed = run_quietly("modprobe", "-d", str(base), "-S", version, "--show-depends", name)
        if listed.returncode != 0 and name not in OPTIONAL_MODULES:
            raise Unavailable(f"kernel {version} has no module {name}: {listed.stdout.strip()}")
        paths += re.findall(r"^insmod (\S+)", listed.stdout, re.MULTILINE)
    return [Path(path) for path in dict.fromkeys(paths)]


def unpack_module(path):
    data = path.read_bytes()
    if path.suffix == ".xz":
        return lzma.decompress(data)
    if path.suffix == ".gz":
        return gzip.decompress(data)
    if path.suffix == ".zst":
        return unpack_zstd(data)
    return data


def unpack_zstd(data):
    if not shutil.which("zstd"):
        raise Unavailable("the kernel's files are packed with zstd; to unpack them: apt-get install zstd")
    return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout


def initramfs_files(root, version, scratch):
    """{path: (contents, mode)}"""
    out = {"bin/busybox": (Path(shutil.which("busybox")).read_bytes(), 0o755),
           "init": ((GUEST / "init").read_bytes(), 0o755)}
    order = []
    for path in module_files(root, version, scratch):
        name = "modules/" + re.sub(r"\.ko.*", ".ko", path.name)
        out[name] = (unpack_module(path), 0o644)
        order.append("/" + name)
    out["modules/order"] = ("\n".join(order).encode() + b"\n", 0o644)
    return out


def archive(files):
    """A cpio archive in the format "newc", which is what the kernel unpacks; folders are made on the way."""
    out, number = bytearray(), 0

    def add(name, mode, data):
        nonlocal number
        number += 1
        encoded = name.encode() + b"\0"
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0]
        out.extend(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
        out.extend(b"\0" * (-len(out) % 4) + data)
        out.extend(b"\0" * (-len(out) % 4))

    for folder in sorted({str(Path(name).parent) for name in files} - {"."}):
        add(folder, 0o040755, b"")
    for name, (data, mode) in files.items():
        add(name, 0o100000 | mode, data)
    add("TRAILER!!!", 0, b"")
    return bytes(out)


def unpack_kernel(image):
    """The ELF file inside a bzImage: emulated, the kernel's unpacking of itself is half of the time of a boot.

    The place of the packed part is in the setup header (Documentation/arch/x86/boot.rst); a length follows it.
    QEMU starts the file by the entry point that a note of type 18 (PVH) gives. Where anything of this is not
    as expected, the image boots as it is, only slower.
    """
    sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    start = (sectors + 1) * 512 + offset
    packed = image[start:start + length - 4]
    try:
        if packed.startswith(b"\xfd7zXZ"):
            kernel = lzma.decompress(packed)
        elif packed.startswith(b"\x1f\x8b"):
            kernel = gzip.decompress(packed)
        elif packed.startswith(b"\x28\xb5\x2f\xfd"):
            kernel = unpack_zstd(packed)
        else:
            return image
    except (OSError, lzma.LZMAError, subprocess.CalledProcessError, Unavailable):
        return image
    has_entry = re.search(rb"\x04\0\0\0[\x04\x08]\0\0\0\x12\0\0\0Xen\0", kernel)
    return kernel if kernel.startswith(b"\x7fELF") and has_entry else image
