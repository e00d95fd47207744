"""Where the ranks run: namespaces joined by a bridge, or this host's loopback interface.

A lab is a context manager with: mode, placement, rate, delay; begin(), called before each program;
environment(rank), the variables that tell a rank who and where it is; enter(rank), called in its
process, and command(rank, program), which put it there; and counters(), the interfaces' bytes.
"""

import json
import os
import re
import shutil
import signal
import subprocess

import gpus
from free_port import free_port
from identity import Identity
from signals import held

_PREFIX = "terse-netlab-"
_PORT = 29500


class LabError(Exception):
    pass


def _ip(*arguments):
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def _tc(namespace, *arguments):
    done = subprocess.run(["tc", "-n", namespace, *arguments], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        raise LabError(f"tc {' '.join(arguments)}: {done.stderr.strip()}")


def _rank_environment(rank, placement, address, port, interface):
    host = placement.host(rank)
    variables = {"RANK": str(rank), "WORLD_SIZE": str(placement.ranks),
                 "LOCAL_RANK": str(placement.local(rank)),
                 "LOCAL_WORLD_SIZE": str(placement.ranks_per_host),
                 "MASTER_ADDR": address, "MASTER_PORT": str(port),
                 "UCX_NET_DEVICES": interface, "NCCL_SOCKET_IFNAME": interface,
                 "GLOO_SOCKET_IFNAME": interface, "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0",
                 # Tells NCCL and terse which ranks share a host. NCCL takes shared memory and
                 # peer-to-peer copies only within it, and refuses two of its ranks on one GPU.
                 "NCCL_HOSTID": os.environ.get("NCCL_HOSTID", f"host{host}")}
    devices = gpus.of_host(host, placement.hosts)
    if devices:  # which the host counts from 0
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    return variables


class Loopback:
    mode = "loopback"
    rate = 0
    delay = 0

    def __init__(self, placement):
        self.placement = placement
        self._port = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def begin(self):
        self._port = free_port()

    def environment(self, rank):
        # The ranks are on one machine in truth: without this they would find shared memory.
        return {**_rank_environment(rank, self.placement, "127.0.0.1", self._port, "lo"),
                "UCX_TLS": "tcp,self", "NCCL_SHM_DISABLE": "1", "NCCL_P2P_DISABLE": "1"}

    def enter(self, rank):
        pass

    def command(self, rank, program):
        del rank
        return program

    def counters(self):
        with open("/proc/self/net/dev", encoding="ascii") as table:
            for line in table:
                name, _, numbers = line.partition(":")
                if name.strip() == "lo":
                    fields = [int(n) for n in numbers.split()]
                    return [{"host": None, "name": "lo", "address": "127.0.0.1",
                             "tx_bytes": fields[8], "rx_bytes": fields[0]}]
        raise LabError("there is no loopback interface")


class Namespaces:
    """N network namespaces with one interface, eth0, each, and one for the bridge that joins them:
    nothing is added to the machine's own network. What the ranks of a host send to each other goes
    by shared memory or the host's loopback interface, and is neither shaped nor counted."""

    mode = "namespaces"

    def __init__(self, placement, rate, delay, burst_kib=None):
        self.placement, self.rate, self.delay = placement, rate, delay
        # What a bucket holds passes unshaped after every pause, and so flatters. As little as still
        # carries the rate: two super-packets of 64 KiB, or a millisecond.
        self._burst = burst_kib * 1024 if burst_kib else max(128 * 1024, rate // 8 // 1000)
        self._run = f"{_PREFIX}{os.getpid()}"
        self._switch = f"{self._run}-switch"
        self._identities = []

    @staticmethod
    def obstacle():
        """Why namespaces cannot be used here, or None."""
        if os.geteuid() != 0:
            return "not root"
        for tool in ("ip", "tc"):
            if not shutil.which(tool):
                return f"{tool} is not installed (package iproute2)"
        name = f"{_PREFIX}{os.getpid()}-probe"
        try:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "add", "probe0", "type", "veth", "peer", "name", "probe1")
            _tc(name, "qdisc", "add", "dev", "probe0", "root", "tbf", "rate", "1gbit", "burst",
                "512k", "latency", "50ms")
            Identity(name).close()
        except (LabError, OSError) as error:
            return f"this machine does not allow it ({error})"
        finally:
            with held():
                subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        return None

    def __enter__(self):
        _remove_stale()
        try:
            self._build()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def begin(self):
        pass

    def environment(self, rank):
        # Asked to tell of lost peers, as hostnccl does, UCX passes shared memory by unless it is
        # told that this can. And half a megabyte on the way (64) is too little where a few cores
        # run all ranks of all hosts: whoever fills it waits for the other to have its turn.
        return {**_rank_environment(rank, self.placement, self._address(0), _PORT, "eth0"),
                "UCX_TLS": "tcp,sm,self", "UCX_MM_ERROR_HANDLING": "y", "UCX_MM_FIFO_SIZE": "512"}

    def enter(self, rank):
        self._identities[self.placement.host(rank)].enter()

    def command(self, rank, program):
        return ["ip", "netns", "exec", self._namespace(self.placement.host(rank)), *program]

    def counters(self):
        found = []
        for host in range(self.placement.hosts):
            [link] = json.loads(_ip("-n", self._namespace(host), "-j", "-s", "link", "show",
                                    "eth0"))
            counts = link["stats64"]
            found.append({"host": host, "name": "eth0", "address": self._address(host),
                          "tx_bytes": counts["tx"]["bytes"], "rx_bytes": counts["rx"]["bytes"]})
        return found

    def _namespace(self, host):
        return f"{self._run}-host{host}"

    def _address(self, host):
        return f"10.79.0.{host + 1}"

    def _build(self):
        _ip("netns", "add", self._switch)
        _ip("-n", self._switch, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self._switch, "link", "set", "bridge", "up")
        for host in range(self.placement.hosts):
            name, port = self._namespace(host), f"port{host}"
            _ip("netns", "add", name)
            _ip("-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", port, "netns",
                self._switch)
            _ip("-n", self._switch, "link", "set", port, "master", "bridge", "up")
            _ip("-n", name, "address", "add", f"{self._address(host)}/16", "dev", "eth0")
            _ip("-n", name, "link", "set", "lo", "up")
            _ip("-n", name, "link", "set", "eth0", "up")
            _set_up_tcp(name)
            self._shape(name, "eth0", self.delay)
            self._shape(self._switch, port, 0)
            self._identities.append(Identity(f"host{host}"))

    def _shape(self, namespace, device, delay):
        if self.rate:
            _tc(namespace, "qdisc", "add", "dev", device, "root", "handle", "1:", "tbf", "rate",
                f"{self.rate}bit", "burst", str(self._burst), "latency", "50ms")
        if delay:
            parent = ["parent", "1:1"] if self.rate else ["root"]
            try:
                _tc(namespace, "qdisc", "add", "dev", device, *parent, "netem", "delay",
                    f"{delay}ms", "limit", "100000")
            except LabError as error:
                raise LabError(f"--delay needs the kernel's netem ({error})") from error

    def _remove(self):
        # An impatient second Ctrl-C must not leave half of it behind.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        for name in _names():
            if name.startswith(self._run + "-"):
                _delete(name)
        while self._identities:
            self._identities.pop().close()


def _set_up_tcp(namespace):
    """Cubic, Linux's default, or its ancestor where cubic is not allowed in namespaces. Otherwise the
    results would depend on this machine's own choice: BBR, for one, takes the pauses between a
    collective's steps for a slow link and paces below its rate. And what one program learned of a
    path is not for the next one."""
    command = ("cd /proc/sys/net/ipv4; "
               "echo cubic > tcp_congestion_control || echo reno > tcp_congestion_control; "
               "echo 1 > tcp_no_metrics_save")
    subprocess.run(["ip", "netns", "exec", namespace, "sh", "-c", command], capture_output=True,
                   check=False)


def _names():
    return [line.split()[0] for line in _ip("netns", "list").splitlines() if line]


def _delete(name):
    """With a namespace go its interfaces. What still runs in it is of this lab, and is ended."""
    pids = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True,
                          check=False).stdout.split()
    for pid in pids:
        try:
            os.kill(int(pid), 9)
        except ProcessLookupError:
            pass
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


def _remove_stale():
    """What a netlab left behind that was killed before it could clean up."""
    for name in _names():
        match = re.fullmatch(_PREFIX + r"(\d+)-\w+", name)
        if match and not _is_netlab(match[1]):
            _delete(name)


def _is_netlab(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return b"netlab" in file.read()
    except OSError:
        return False
