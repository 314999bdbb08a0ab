"""In both machines of a pair that was started with a loss of 30 %: the faults do what they say, and no more.

Machine 0 sends, machine 1 counts; at last machine 1 kills machine 0. Status 0, or 1 and what was wrong.
"""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

OUT = Path(os.environ["OUT_DIR"])
MACHINE = int(os.environ["VM_MACHINE"])
PORT, COUNT = 4000, 200


def meet(name):
    """Both machines are at the same place."""
    (OUT / f"{name}.{MACHINE}").touch()
    while not (OUT / f"{name}.{1 - MACHINE}").exists():
        time.sleep(0.01)


def fault(*words):
    subprocess.run(["vm-fault", *words], check=True)


def send(link, mark):
    for _ in range(COUNT):
        link.sendto(mark, (os.environ["VM_PEER"], PORT))
        time.sleep(0.001)


def arrived(link, mark):
    """How many arrive until half a second passes without any after the last was sent."""
    count, all_sent = 0, False
    while True:
        try:
            count += link.recv(100) == mark
        except TimeoutError:
            if all_sent:
                return count
            # A look at the shared folder takes longer than a datagram, so it has to wait for a pause.
            all_sent = (OUT / f"sent {mark}").exists()


def transfer(link, mark):
    """The number that arrived; of machine 0, -1."""
    meet(f"before {mark}")
    if MACHINE == 0:
        send(link, mark)
        (OUT / f"sent {mark}").touch()
        return -1
    return arrived(link, mark)


def expect(good, text):
    if not good:
        sys.exit(f"machine {MACHINE}: {text}")


def round_trip(link):
    """Seconds until the answer to this very question, not to one that was given up."""
    start = time.monotonic()
    number = b"%d" % time.monotonic_ns()
    link.sendto(b"ping " + number, (os.environ["VM_PEER"], PORT))
    while link.recv(100) != b"pong " + number:
        pass
    return time.monotonic() - start


def reach_peer(link):
    """Asks until there is an answer. It also settles the hardware addresses: a lost question for one is repeated only
    after a second, and until then datagrams fill the socket."""
    for _ in range(100):
        try:
            return round_trip(link)
        except TimeoutError:
            pass
        except OSError:  # the link is down
            time.sleep(0.1)
    return sys.exit("the peer does not answer")


def check_loss(link):
    meet("loss")
    if MACHINE == 0:
        reach_peer(link)
        (OUT / "reached").touch()
    else:
        answer(link, lambda: (OUT / "reached").exists())
    count = transfer(link, b"lossy")
    # 140 on average; eight standard deviations to both sides.
    expect(count == -1 or 88 < count < 192, f"{count} of {COUNT} arrived with a loss of 30 %")
    fault("clear")
    count = transfer(link, b"clear")
    expect(count in (-1, COUNT), f"{count} of {COUNT} arrived without loss")


def answer(link, is_over):
    while not is_over():
        try:
            text, sender = link.recvfrom(100)
        except TimeoutError:
            continue
        if text.startswith(b"ping"):
            link.sendto(text.replace(b"ping", b"pong"), sender)


def check_delay(link):
    meet("delay")
    if MACHINE == 1:
        return answer(link, lambda: (OUT / "delayed").exists())
    fault("delay", "300ms")
    took = round_trip(link)
    expect(took > 0.29, f"{took:.3f} s there and back with a delay of 300 ms")
    fault("clear")
    return (OUT / "delayed").touch()


def check_link_down(link):
    meet("link down")
    if MACHINE == 1:
        return answer(link, lambda: (OUT / "up again").exists())
    fault("link-down")
    try:
        link.sendto(b"lost", (os.environ["VM_PEER"], PORT))
        sys.exit("sent while the link was down")
    except OSError:
        pass
    fault("link-down", "1")  # no more than that it comes back by itself
    reach_peer(link)
    return (OUT / "up again").touch()


def check_cut(link):
    meet("cut")
    if MACHINE == 1:
        return answer(link, lambda: (OUT / "joined").exists())
    fault("cut")
    try:
        round_trip(link)
        sys.exit("answered across a cut")
    except TimeoutError:
        pass
    fault("cut", "1")  # no more than that it ends by itself
    reach_peer(link)
    return (OUT / "joined").touch()


def check_kill(link):
    meet("kill")
    if MACHINE == 0:
        time.sleep(100)
        sys.exit("was not killed")
    fault("kill-peer")
    try:
        round_trip(link)
        sys.exit("a dead machine answered")
    except TimeoutError:
        pass


def main():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
        link.bind((os.environ["VM_ADDRESS"], PORT))
        link.settimeout(0.5)
        link.setsockopt(socket.SOL_SOCKET, 33, 4 << 20)  # SO_RCVBUFFORCE: nothing is lost while we are not scheduled
        for check in (check_loss, check_delay, check_link_down, check_cut, check_kill):
            check(link)
            print(check.__name__, "passed", flush=True)


main()
