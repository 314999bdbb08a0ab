"""The cards of libfabric in what lci_info says, to people and to programs: their addresses, and what is near."""

import glob
import ipaddress
import json
import os
import subprocess
import sys

import info_shape

INFO, FAKE_OFI, MOCK_CUDA = sys.argv[1:4]


def run(environment, *arguments):
    got = subprocess.run([INFO, *arguments], capture_output=True, text=True, check=False, env={**os.environ, **environment})
    if "nlohmann-json3-dev" in got.stderr:
        print("skipped:", got.stderr.strip())
        sys.exit(77)
    if got.returncode != 0:
        sys.exit(f"exit status {got.returncode}: {got.stderr}")
    return got.stdout


def ask(environment):
    """The backend ofi as programs see it, all that is said, and the lines that people see."""
    said = json.loads(run(environment, "--json"))
    strange = info_shape.differences(said) or info_shape.unlikely(said)
    if strange:
        sys.exit(f"--json: {strange}")
    return next(one for one in said["backends"] if one["name"] == "ofi"), said, run(environment).splitlines()


def expect(condition, *what):
    if not condition:
        sys.exit(f"wrong: {what}")


def expect_addresses(backend, lines):
    for card in backend["cards"]:
        address = ipaddress.ip_address(card["what"].split(",")[0])
        if card["name"].split()[-1] == "lo":
            expect(address.is_loopback, card)
        expect(any(f" {card['name']} " in line and f" {address}, inject " in line for line in lines), card, lines)


def expect_near(function):
    """A card that is this PCI function of the machine, beside two GPUs that are not in it."""
    environment = {"LD_LIBRARY_PATH": f"{FAKE_OFI}:{MOCK_CUDA}", "LCI_FAKE_OFI": f"source=10.0.0.7,pci={function}"}
    backend, said, lines = ask(environment)
    card = backend["cards"][0]
    expect((card["name"], card["chosen"], len(backend["cards"])) == ("fake fake0", True, 1), backend)
    expect_addresses(backend, lines)
    gpus = [gpu["name"] for one in said["accelerators"] for gpu in one["gpus"]]
    expect(len(gpus) == 2 and card["near_gpus"] == gpus, card, gpus)
    expect(bool(card["near_cores"]) == os.path.exists(f"/sys/bus/pci/devices/{function}/local_cpulist"), card)
    near = next(line for line in lines[lines.index("backends"):] if line.strip().startswith("near: "))
    expect(near.endswith(", ".join(gpus)) and ("cores" in near) == bool(card["near_cores"]), near)
    return environment


# The first function that there is here, or else one that is not.
functions = sorted(os.path.basename(path) for path in glob.glob("/sys/bus/pci/devices/*"))
fake = expect_near((functions or ["0000:3b:00.0"])[0])
# A card whose place is not told has nothing near.
lost = ask({**fake, "LCI_FAKE_OFI": "source=10.0.0.7"})[0]["cards"][0]
expect((lost["near_cores"], lost["near_gpus"]) == ([], []), lost)
# One that is not wanted, and therefore not chosen.
other = ask({**fake, "LCI_ATTR_DEVICE_NAME": "fake7"})[0]["cards"][0]
expect((other["chosen"], other["why"]) == (False, "device_name is fake7"), other)

# What the real library says of the interfaces of this machine.
real, _, text = ask({"LCI_ATTR_OFI_PROVIDER_NAME": "tcp"})
if not real["usable"]:
    print("skipped the real library:", real["why_not"])
    sys.exit(77)
expect([card["chosen"] for card in real["cards"]].count(True) == 1, real)
expect_addresses(real, text)
