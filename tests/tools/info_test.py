"""lci_info --json is what lci_info -v says, and a wrong word is an error."""

import json
import subprocess
import sys

import info_shape


def run(*arguments):
    return subprocess.run([sys.argv[1], *arguments], capture_output=True, text=True, check=False)


short, verbose, answer = run(), run("-v"), run("--json")
if "nlohmann-json3-dev" in answer.stderr:
    print("skipped --json:", answer.stderr.strip())
    sys.exit(77)
for one in (short, verbose, answer):
    if one.returncode != 0:
        sys.exit(f"exit status {one.returncode}: {one.stderr}")
said = json.loads(answer.stdout)
strange = info_shape.differences(said)
if strange:
    sys.exit(f"--json: {strange}")
missing = info_shape.unlikely(said)
missing += [text for text in (f"lci {said['version']}", "backends", said["full_version"]) if text not in short.stdout]
for key in ("backends", "bootstraps", "accelerators", "gpu_tiers", "libraries", "experimental"):
    if not said[key]:
        missing.append(key)
    for one in said[key]:
        if one["usable"] != (one["why_not"] == ""):
            missing.append(f"{one['name']}: usable and why_not")
        if f"  {one['name']} " not in short.stdout:
            missing.append(one["name"])
shm = [one for one in said["backends"] if one["name"] == "shm"]
if not shm or not shm[0]["usable"]:
    missing.append("shm is usable")
is_built = "LCI_EXPERIMENTAL=ON" in said["build_options"]
for one in said["experimental"]:
    if one["usable"] != is_built or (not is_built and not one["why_not"].startswith("experimental, not built")):
        missing.append(f"experimental: {one}")
    if (f"  {one['name']} ".ljust(14) + ("built" if is_built else "experimental, not built")) not in short.stdout:
        missing.append(f"experimental {one['name']} in the text")
TIERS = ["T0 GPU direct", "T1 GPU writes, CPU rings", "T2 CPU forwards raw work requests", "T3 CPU proxy"]
if [one["name"] for one in said["gpu_tiers"]] != TIERS:
    missing.append(f"tiers: {said['gpu_tiers']}")
for one in said["gpu_tiers"]:
    if f"  {one['name']} ".ljust(42) + (one["why_not"] or "usable") not in short.stdout:
        missing.append(f"{one['name']} with its reason in the text")
    for probe in one["probes"]:
        if f"      {probe['name']} ".ljust(46) + (probe["why_not"] or "usable") not in verbose.stdout:
            missing.append(f"{one['name']}: probe {probe['name']} in the text")
upper, proxy = said["gpu_tiers"][:3], said["gpu_tiers"][3]
has_ibv = [one["name"] for one in said["backends"] if one["name"] == "ibv" and "not built" not in one["why_not"]]
if has_ibv and not is_built and not all(one["why_not"].startswith("experimental, not built") for one in upper):
    missing.append(f"tiers that are not built: {upper}")
if has_ibv and is_built and not all(one["probes"] for one in upper):
    missing.append(f"tiers without probes: {upper}")
if not proxy["usable"] and "gpu_proxy" not in proxy["why_not"]:
    missing.append(f"the option in {proxy}")
attributes = {one["name"]: one for one in said["attributes"]}
if (attributes["npackets"]["value"], attributes["npackets"]["source"]) != ("1234", "LCI_ATTR_NPACKETS"):
    missing.append(f"npackets: {attributes['npackets']}")
if attributes["packet_size"]["source"] != "default":
    missing.append(f"packet_size: {attributes['packet_size']}")
for name, one in attributes.items():
    if f"  {name} " not in verbose.stdout:
        missing.append(name)
if missing:
    sys.exit(f"wrong or missing: {missing}\n{short.stdout}")
for wrong in (["--wrong"], ["-v", "--json"]):
    got = run(*wrong)
    if got.returncode != 1 or "usage:" not in got.stderr:
        sys.exit(f"{wrong}: exit status {got.returncode}, {got.stderr}")
