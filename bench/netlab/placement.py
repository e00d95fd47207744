"""Which rank runs on which host."""

import dataclasses

MAPS = ("slot", "node")  # as mpirun calls them
MOST_HOSTS, MOST_RANKS = 250, 64  # of a lab, and of a host


@dataclasses.dataclass(frozen=True)
class Placement:
    hosts: int
    ranks_per_host: int = 1
    map_by: str = "slot"  # a host is filled before the next; "node": the hosts take ranks in turn

    @property
    def ranks(self):
        return self.hosts * self.ranks_per_host

    def host(self, rank):
        return rank % self.hosts if self.map_by == "node" else rank // self.ranks_per_host

    def local(self, rank):
        """Its number among the ranks of its host."""
        return rank // self.hosts if self.map_by == "node" else rank % self.ranks_per_host

    def __str__(self):
        hosts = f"{self.hosts} host{'s' if self.hosts > 1 else ''}"
        return f"{hosts} of {self.ranks_per_host} ranks" if self.ranks_per_host > 1 else hosts
