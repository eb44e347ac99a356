"""Connects two TUN devices: each packet arrives after a delay in milliseconds, and a share of the packets is lost.

Usage: relay.py DEVICE DEVICE DELAY LOSS. It prints "ready" when both devices exist, and ends when its input ends.
"""

import collections
import fcntl
import os
import random
import select
import struct
import sys
import time

TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
PACKET = 65_536
# Packets of one device that are read before others are sent.
BATCH = 64


def open_tun(name):
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
    return device


def packets(device):
    for _ in range(BATCH):
        try:
            yield os.read(device, PACKET)
        except OSError:
            return


def send(device, packet):
    try:
        os.write(device, packet)
    except OSError:
        # The device is down, or has no room: the packet is lost.
        pass


def relay(first, second, delay, loss):
    other = {first: second, second: first}
    waiting = collections.deque()
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, device, packet = waiting.popleft()
            send(device, packet)
        patience = max(0, waiting[0][0] - now) if waiting else None
        readable, _, _ = select.select([sys.stdin, first, second], [], [], patience)
        for device in readable:
            if device is sys.stdin:
                return
            due = time.monotonic() + delay
            waiting.extend((due, other[device], packet) for packet in packets(device) if random.random() >= loss)


first, second = open_tun(sys.argv[1]), open_tun(sys.argv[2])
print("ready", flush=True)
relay(first, second, float(sys.argv[3]) / 1000, float(sys.argv[4]))
