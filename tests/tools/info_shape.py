"""What the answer of lci_info --json is made of, and where an answer is not."""

CORES = [int]
CHOICE = {"name": str, "usable": bool, "why_not": str}
CARD = {"name": str, "what": str, "chosen": bool, "why": str, "near_cores": CORES, "near_gpus": [str]}
GPU = {"name": str, "what": str, "near_cores": CORES, "ways": [CHOICE]}
ANSWER = {
    "version": str,
    "full_version": str,
    "built": str,
    "host": str,
    "cores": CORES,
    "backends": [{**CHOICE, "place": str, "cards": [CARD]}],
    "bootstraps": [CHOICE],
    "accelerators": [{**CHOICE, "gpus": [GPU]}],
    "gpu_tiers": [{**CHOICE, "probes": [CHOICE]}],
    "libraries": [CHOICE],
    "experimental": [CHOICE],
    "attributes": [{"name": str, "value": str, "source": str}],
    "build_options": str,
}


def differences(said, shape=None, at="answer"):
    """Sentences, one for each field that is missing, too much, or of another type."""
    shape = ANSWER if shape is None else shape
    if isinstance(shape, dict):
        if not isinstance(said, dict):
            return [f"{at} is no object: {said!r}"]
        out = [f"{at}.{name} is missing" for name in shape if name not in said]
        out += [f"{at}.{name} is not known here" for name in said if name not in shape]
        for name in shape.keys() & said.keys():
            out += differences(said[name], shape[name], f"{at}.{name}")
        return out
    if isinstance(shape, list):
        if not isinstance(said, list):
            return [f"{at} is no list: {said!r}"]
        out = []
        for number, one in enumerate(said):
            out += differences(one, shape[0], f"{at}[{number}]")
        return out
    # What is true is an int as well, to Python.
    return [] if type(said) is shape else [f"{at} is no {shape.__name__}: {said!r}"]


def unlikely(said):
    """Sentences about cards: only who is usable chooses one; each has a name and a reason."""
    out = []
    for backend in said["backends"]:
        chosen = [card["name"] for card in backend["cards"] if card["chosen"]]
        if chosen and not backend["usable"]:
            out.append(f"{backend['name']} is not usable and chooses {chosen}")
        out += [f"{backend['name']}: a card without a name or a reason: {card}" for card in backend["cards"]
                if not card["name"] or not card["why"]]
    return out
