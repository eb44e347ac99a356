"""An HTTP/3 client for tests: does what a scenario on stdin says on one connection, and prints what happened. Both are JSON.

Scenario: `port`, `host` (for SNI), `ca` (a file), `window` (bytes of a stream and of the connection that the server may
send ahead), `stalled` (whether these windows never grow), `silent` (a number of connections that begin before and never
answer) and `streams`, which are opened in order:
  fields    the fields of a request, sent by aioquic; or
  frames    frames that aioquic does not check: [type, fields] or [type, hexadecimal payload]
  raw       bytes in hexadecimal behind them
  uni       whether the stream has one direction
  body      text, or a number of bytes
  continue  whether the body waits for an interim response
  late      what the rest behind the head waits for: `response` (its end) or `stop` (the server wants no more), for a few seconds,
            or a number of seconds
  trailers  fields behind the body
  reset     a code: the stream is reset after all this
  stop      a code: the client wants no more of the response when the first bytes of its body have come
  open      whether the stream is not ended
  after     number of a stream whose response must have ended before this one begins
  keys      whether the client updates its keys before
  from      an address to which the client moves before
`sni` (a name in place of `host`; if empty, the client sends none and checks no certificate), `ciphers` (names), `token` (hexadecimal: proof of
the address), `resume` (whether a second connection, with the ticket of the first one, does all this again), `then` (a file that must exist before
that) and `early` (whether that connection sends its streams in early data: the number of responses for which the client then waits, and half a
second more, and for `least` bytes of datagrams, and until the file `hold` exists, before it completes the handshake. Afterwards the first datagrams are sent again from another
port, and a third connection has the ticket again).
`wait`: what must happen before the client disconnects: `responses` (default) or `close`.
`stray`: the port of another server, which gets a packet of the connection at the end.

Instead of `streams`, `load`: fields of requests that are sent one after the other on each of some connections, until the file
`until` exists. A client opens another connection when the server announces the end of one, and sends a request again if the server
has declined it. One more client uses a new connection for each request.

Instead of both, `flood`: what a hostile client sends until the file `until` exists: `garbage` (datagrams of no connection), `initials`
(beginnings of handshakes from many ports, without answers), `pings` (frames of QUIC without effect), `resets` (streams that are reset),
`frames` (frames of HTTP/3 without effect).

Result: `streams`, one each: `interim` (statuses), `status`, `fields`, `bytes`, `sha256`, `text` (of short bodies), `ended`, `reset`
(code), `stopped` (code), `early` (whether what `late` names came before the rest was sent, or the response before the handshake was complete),
`place` (the number of responses that ended before); `closed` (code of the connection, if the server has ended it); `control` (bytes of the server's own
streams in hexadecimal, by stream); `retried` (whether the server has asked for a proof of the address); `most_streams` (how many
requests the server permits at a time); `most_bytes` (how many bytes of all streams it has permitted); `cipher`; `resumed` (whether the ticket
was accepted); with `stray`: `was_reset` (whether that server has
answered with a token of the first one, which ends the connection); with `early`: `early_data` (whether it was accepted), `again` (whether the ticket was accepted again) and `before` and `repeated`, each
with `sent` and `received` (bytes before the handshake was complete, and of the repetition); `refused` (code of the connection, if there is none: the only result then); `silent`, one each: `sent` and `received` (bytes), `first` (the first byte of the first
datagram that came back).
Of a flood: `sent` (how often it has sent such a thing).
Of a load: `responses`, `connections`, `again` (requests that were declined) and `failures` (texts).
"""

import asyncio
import hashlib
import json
import os
import socket
import ssl
import sys
import time

import pylsqpack
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer, BufferReadError, encode_uint_var
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.connection import QuicConnection
from aioquic.quic.events import (
    ConnectionTerminated,
    StopSendingReceived,
    StreamDataReceived,
    StreamReset,
)
from aioquic.tls import CipherSuite

# Fewer than a server permits, which aioquic does not check when it resets a stream.
MOST_OPEN = 50

# More than a busy machine needs.
PATIENCE_S = 60

# Frame of a server that announces its end, and code of a request that it has declined.
GOAWAY, REQUEST_REJECTED = 0x07, 0x10B

# Frame with a part of a body.
DATA = 0x00

# Ports of a flood of datagrams.
PORTS = 200

# Connections of a load that last.
LASTING = 3

# After such a pause a server has given up a client that never answers.
PAUSE_S = 3

# For how long an early client waits for responses that should not come.
EARLY_S = 0.5


async def existence(path):
    """Waits until a file exists, if there is a path."""
    while path and not os.path.exists(path):
        await asyncio.sleep(0.1)


def pairs(fields):
    return [(name.encode("latin1"), value.encode("latin1")) for name, value in fields]


def joined(fields):
    """The fields by name; the values of fields of the same name are joined."""
    found = {}
    for name, value in fields:
        name, value = name.decode("latin1"), value.decode("latin1")
        found[name] = f"{found[name]}, {value}" if name in found else value
    return found


def section(fields):
    encoder = pylsqpack.Encoder()
    encoder.apply_settings(max_table_capacity=0, blocked_streams=0)
    return encoder.encode(0, pairs(fields))[1]


def frame(kind, content):
    payload = bytes.fromhex(content) if isinstance(content, str) else section(content)
    return encode_uint_var(kind) + encode_uint_var(len(payload)) + payload


class Stream:
    def __init__(self, plan):
        self.plan = plan
        self.interim, self.status, self.fields = [], None, {}
        self.bytes, self.hash, self.text = 0, hashlib.sha256(), b""
        self.ended, self.reset, self.stopped, self.early, self.place = False, None, None, False, None

    def is_over(self):
        return self.ended or self.reset is not None

    def result(self):
        return {
            "interim": self.interim,
            "status": self.status,
            "fields": self.fields,
            "bytes": self.bytes,
            "sha256": self.hash.hexdigest(),
            "text": self.text.decode("latin1"),
            "ended": self.ended,
            "reset": self.reset,
            "stopped": self.stopped,
            "early": self.early,
            "place": self.place,
        }


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.streams, self.control, self.closed = {}, {}, None
        # The datagrams of an early client until it completes the handshake.
        self.is_early, self.sent, self.received = False, [], 0
        self.changed = asyncio.Event()
        # aioquic misses the content that the response to a HEAD request announces.
        self.http._check_content_length = lambda _: None

    def transmit(self):
        if not self.is_early:
            super().transmit()

    def datagram_received(self, data, addr):
        self.received += len(data)
        super().datagram_received(data, addr)

    async def begin_early(self, scenario):
        """Sends the requests in early data. Completes the handshake after some responses have come."""
        self.is_early, responses = True, scenario["early"]
        numbers = [await self.run(plan) for plan in scenario["streams"]]
        for datagram, address in self._quic.datagrams_to_send(now=self._loop.time()):
            self.sent.append(datagram)
            self._transport.sendto(datagram, address)
        await self.until(lambda: sum(stream.is_over() for stream in self.streams.values()) >= responses)
        while self.received < scenario.get("least", 0):
            await asyncio.sleep(0.1)
        await asyncio.sleep(EARLY_S)
        await existence(scenario.get("hold"))
        for stream in self.streams.values():
            stream.early = stream.is_over()
        before = {"sent": sum(map(len, self.sent)), "received": self.received}
        self.is_early = False
        super().transmit()
        return numbers, before

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.closed = event.error_code
        elif isinstance(event, StreamReset) and event.stream_id in self.streams:
            self.streams[event.stream_id].reset = event.error_code
        elif isinstance(event, StopSendingReceived) and event.stream_id in self.streams:
            self.streams[event.stream_id].stopped = event.error_code
        elif isinstance(event, StreamDataReceived) and event.stream_id % 4 == 3:
            self.control[event.stream_id] = self.control.get(event.stream_id, b"") + event.data
        for one in self.http.handle_event(event):
            self.note(one)
        self.changed.set()

    def note(self, event):
        stream = self.streams.get(event.stream_id)
        if stream is None:
            return
        if isinstance(event, HeadersReceived):
            fields = joined(event.headers)
            status = int(fields.get(":status", 0))
            if 100 <= status < 200:
                stream.interim.append([status, fields])
            elif status:
                stream.status, stream.fields = status, fields
        elif isinstance(event, DataReceived):
            stream.bytes += len(event.data)
            stream.hash.update(event.data)
            stream.text = (stream.text + event.data)[:4096]
        if event.stream_ended:
            stream.place = sum(one.ended for one in self.streams.values())
            stream.ended = True

    def last_request(self):
        """The id from which on the server declines requests; None: it has not announced its end."""
        found = None
        for data in self.control.values():
            rest = Buffer(data=data)
            try:
                rest.pull_uint_var()
                while True:
                    kind, length = rest.pull_uint_var(), rest.pull_uint_var()
                    payload = Buffer(data=rest.pull_bytes(length))
                    found = payload.pull_uint_var() if kind == GOAWAY else found
            except BufferReadError:
                pass
        return found

    def open_requests(self):
        return sum(not (stream.is_over() or stream.plan.get("uni")) for stream in self.streams.values())

    async def until(self, condition):
        while not condition() and self.closed is None:
            self.changed.clear()
            await self.changed.wait()

    async def soon(self, condition):
        """Whether it happens soon."""
        try:
            await asyncio.wait_for(self.until(condition), PAUSE_S)
        except TimeoutError:
            pass
        return condition()

    async def move(self, address):
        """Continues from another address, with another connection id."""
        local = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        local.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        local.bind(("::ffff:" + address, 0))
        self._quic.change_connection_id()
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=local)

    async def stop(self, number, stream):
        await self.until(lambda: stream.bytes or stream.is_over())
        self._quic.stop_stream(number, stream.plan["stop"])
        self.transmit()
        return number

    async def run(self, plan):
        if "from" in plan:
            await self.move(plan["from"])
        if plan.get("keys"):
            self._quic.request_key_update()
        uni = bool(plan.get("uni"))
        number = self._quic.get_next_available_stream_id(is_unidirectional=uni)
        stream = self.streams[number] = Stream(plan)
        # A request without content ends with its head.
        is_whole = not any(
            plan.get(key) for key in ("body", "trailers", "continue", "frames", "raw", "open", "reset", "uni", "late")
        )
        if is_whole and "fields" in plan:
            self.http.send_headers(number, pairs(plan["fields"]), end_stream=True)
            self.transmit()
            return number if "stop" not in plan else await self.stop(number, stream)
        if "fields" in plan:
            self.http.send_headers(number, pairs(plan["fields"]))
        raw = b"".join(frame(*one) for one in plan.get("frames", []))
        self._quic.send_stream_data(number, raw + bytes.fromhex(plan.get("raw", "")))
        self.transmit()
        if plan.get("continue"):
            await self.until(lambda: stream.interim or stream.is_over())
        late = plan.get("late")
        if late in ("response", "stop"):
            done = stream.is_over if late == "response" else lambda: stream.stopped is not None
            stream.early = await self.soon(done)
            if stream.is_over() and self.closed is None and stream.stopped is None:
                self._quic.send_stream_data(number, b"", end_stream=True)
        elif late:
            await asyncio.sleep(late)
        body = plan.get("body", "")
        body = bytes(body) if isinstance(body, int) else body.encode()
        if self.closed is None and not stream.is_over():
            if body:
                self.http.send_data(number, body, end_stream=False)
            if "trailers" in plan:
                self.http.send_headers(number, pairs(plan["trailers"]))
            if "reset" in plan:
                self._quic.reset_stream(number, plan["reset"])
            elif not plan.get("open"):
                self._quic.send_stream_data(number, b"", end_stream=True)
        self.transmit()
        return number


class Silent:
    """A client that sends the first datagram of a handshake and nothing else."""

    def __init__(self, configuration, server):
        quic = QuicConnection(configuration=configuration)
        quic.connect(server, now=time.time())
        first, _ = quic.datagrams_to_send(now=time.time())[0]
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.sendto(first, server)
        self.sent, self.received, self.first = len(first), 0, None

    def receive(self, patience):
        """True if a datagram has come in time."""
        self.socket.settimeout(patience)
        try:
            datagram = self.socket.recv(65_536)
        except TimeoutError:
            return False
        self.received += len(datagram)
        self.first = datagram[0] if self.first is None else self.first
        return True

    def result(self):
        return {"sent": self.sent, "received": self.received, "first": self.first}


def begin_silent(scenario, configuration):
    found = []
    for _ in range(scenario.get("silent", 0)):
        found.append(Silent(configuration(), ("127.0.0.1", scenario["port"])))
        found[-1].receive(PATIENCE_S)
    while len(found) == 1 and found[0].receive(PAUSE_S):
        pass
    return found


class Load:
    """Clients that send requests until a file exists."""

    def __init__(self, scenario, configuration):
        self.scenario, self.configuration = scenario, configuration
        self.responses, self.connections, self.again, self.failures = 0, 0, 0, []

    def is_over(self):
        return bool(self.failures) or os.path.exists(self.scenario["until"])

    async def exchange(self, client):
        """Sends each request once more if the server has declined it."""
        fields = self.scenario["load"][self.responses % len(self.scenario["load"])]
        number = await client.run({"fields": fields})
        stream = client.streams[number]
        await client.until(stream.is_over)
        last = client.last_request()
        if stream.ended and stream.status == 200:
            self.responses += 1
        elif stream.reset == REQUEST_REJECTED or (last is not None and number >= last):
            self.again += 1
        else:
            self.failures.append(f"{fields}: {stream.result()}, closed: {client.closed}, last request: {last}")

    async def connection(self, lasts):
        address = "127.0.0.1", self.scenario["port"]
        async with connect(*address, configuration=self.configuration(), create_protocol=Client) as client:
            self.connections += 1
            await self.exchange(client)
            while lasts and client.last_request() is None and client.closed is None and not self.is_over():
                await self.exchange(client)

    async def client(self, lasts):
        while not self.is_over():
            try:
                await self.connection(lasts)
            except Exception as error:
                self.failures.append(f"{type(error).__name__}: {error}")

    async def run(self):
        await asyncio.gather(self.client(False), *(self.client(True) for _ in range(LASTING)))
        names = "responses", "connections", "again", "failures"
        return {name: getattr(self, name) for name in names}


class Flood:
    """A hostile client."""

    def __init__(self, scenario, configuration):
        self.scenario, self.configuration, self.sent = scenario, configuration, 0
        self.server = "127.0.0.1", scenario["port"]

    def is_over(self):
        return os.path.exists(self.scenario["until"])

    async def run(self):
        kind = self.scenario["flood"]
        if kind in ("garbage", "initials"):
            self.send_datagrams(self.garbage() if kind == "garbage" else self.initials())
        while not self.is_over():
            try:
                await self.connection(getattr(self, kind))
            except ConnectionError:
                # The server has refused it, or ended it.
                await asyncio.sleep(0.01)
        return {"sent": self.sent}

    def send_datagrams(self, datagrams):
        sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(PORTS)]
        while not self.is_over():
            for number in range(1000):
                sockets[number % PORTS].sendto(datagrams[number % len(datagrams)], self.server)
            self.sent += 1000

    def garbage(self):
        return [bytes([0x40 | number % 64]) + os.urandom(1199) for number in range(1000)]

    def initials(self):
        def first():
            quic = QuicConnection(configuration=self.configuration())
            quic.connect(self.server, now=time.time())
            return quic.datagrams_to_send(now=time.time())[0][0]

        return [first() for _ in range(300)]

    async def connection(self, act):
        async with connect(*self.server, configuration=self.configuration(), create_protocol=Client) as client:
            while client.closed is None and not self.is_over():
                await act(client)
                client.transmit()
                self.sent += 1
                await asyncio.sleep(0)

    async def pings(self, client):
        client._quic.send_ping(self.sent)

    async def resets(self, client):
        await client.until(lambda: client.open_requests() < MOST_OPEN)
        if client.closed is None:
            await client.run({"fields": self.scenario["fields"], "body": 1, "reset": 0x10C})

    async def frames(self, client):
        if not client.streams:
            await client.run({"fields": self.scenario["fields"], "open": True})
        for number in client.streams:
            client._quic.send_stream_data(number, frame(DATA, "") * 50)


async def exchange(scenario, configuration, silent, tickets, is_early=False):
    """What happens on one connection; `is_early`: with early data."""
    made = []

    def client(*args, **kwargs):
        made.append(Client(*args, **kwargs))
        return made[0]

    options = {"configuration": configuration, "create_protocol": client, "session_ticket_handler": tickets.append}
    options["wait_connected"] = not is_early
    try:
        async with connect("127.0.0.1", scenario["port"], **options) as client:
            numbers, before = [], None
            if is_early:
                numbers, before = await client.begin_early(scenario)
            result = await exchange_streams(scenario, client, silent, tickets, numbers)
        return result | ({"before": before, "repeated": repeat(client.sent, scenario["port"])} if before else {})
    except ConnectionError:
        return {"refused": made[0].closed}


def was_reset(client, port):
    """Whether the server at a port resets a connection of which it gets a packet (RFC 9000 section 10.3)."""
    ids = [client._quic._peer_cid, *client._quic._peer_cid_available]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.settimeout(PAUSE_S)
        other.sendto(b"\x40" + ids[0].cid + os.urandom(100), ("127.0.0.1", port))
        try:
            return other.recv(65_536)[-16:] in [one.stateless_reset_token for one in ids]
        except TimeoutError:
            return False


def repeat(datagrams, port):
    """Sends datagrams from another port, and receives what comes back."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.settimeout(PAUSE_S)
        for datagram in datagrams:
            other.sendto(datagram, ("127.0.0.1", port))
        received = 0
        try:
            while True:
                received += len(other.recv(65_536))
        except TimeoutError:
            return {"sent": sum(map(len, datagrams)), "received": received}


async def exchange_streams(scenario, client, silent, tickets, numbers):
    if scenario.get("stalled"):
        client._quic._write_connection_limits = lambda *_, **__: None
        client._quic._write_stream_limits = lambda *_, **__: None
    for plan in scenario["streams"][len(numbers) :]:
        if "after" in plan:
            earlier = client.streams[numbers[plan["after"]]]
            await client.until(earlier.is_over)
        await client.until(lambda: client.open_requests() < MOST_OPEN)
        if client.closed is not None:
            break
        numbers.append(await client.run(plan))
    if scenario.get("wait") == "close":
        await client.until(lambda: False)
    else:
        asked = [one for one in client.streams.values() if not {"uni", "reset", "stop"} & one.plan.keys()]
        await client.until(lambda: all(one.is_over() for one in asked))
    while scenario.get("resume") and not tickets and client.closed is None:
        await client.ping()
    stray = {"was_reset": was_reset(client, scenario["stray"])} if "stray" in scenario else {}
    return stray | {
        "streams": [client.streams[number].result() for number in numbers],
        "closed": client.closed,
        "retried": client._quic._retry_count > 0,
        "most_streams": client._quic._remote_max_streams_bidi,
        "most_bytes": client._quic._remote_max_data,
        "cipher": client._quic.tls.key_schedule.cipher_suite.name,
        "resumed": client._quic.tls.session_resumed,
        "early_data": client._quic.tls.early_data_accepted,
        "silent": [one.result() for one in silent],
        "control": {str(number): data.hex() for number, data in client.control.items()},
    }


async def main(scenario):
    window = scenario.get("window", 1 << 20)

    def configuration(ticket=None):
        made = QuicConfiguration(
            alpn_protocols=H3_ALPN,
            is_client=True,
            server_name=scenario.get("sni", scenario["host"]) or None,
            max_data=window,
            max_stream_data=window,
            session_ticket=ticket,
            token=bytes.fromhex(scenario.get("token", "")),
        )
        if made.server_name is None:
            made.verify_mode = ssl.CERT_NONE
        if "ciphers" in scenario:
            made.cipher_suites = [CipherSuite[name] for name in scenario["ciphers"]]
        made.load_verify_locations(scenario["ca"])
        return made

    if "flood" in scenario:
        return json.dump(await Flood(scenario, configuration).run(), sys.stdout)
    if "load" in scenario:
        return json.dump(await Load(scenario, configuration).run(), sys.stdout)
    silent = begin_silent(scenario, configuration)
    if not scenario["streams"]:
        return json.dump({"silent": [one.result() for one in silent]}, sys.stdout)
    tickets = []
    result = await exchange(scenario, configuration(), silent, tickets)
    if scenario.get("resume"):
        await existence(scenario.get("then"))
        result = await exchange(scenario, configuration(tickets[0]), silent, tickets, "early" in scenario)
    if "early" in scenario:
        once = scenario | {"streams": scenario["streams"][:1]}
        result["again"] = (await exchange(once, configuration(tickets[0]), silent, tickets))["resumed"]
    json.dump(result, sys.stdout)


def run():
    scenario = json.load(sys.stdin)
    # A load, or a flood, ends when its test does.
    asyncio.run(asyncio.wait_for(main(scenario), None if "until" in scenario else PATIENCE_S))


run()
