"""Sets, not sequences: a graph given as a mask. About twenty seconds.

Forty nodes in two camps, with more links within a camp than across; each node says its camp, but is right in only 65
of 100 cases. An encoder learns the true camp of every node, three times: each node sees itself alone, sees all nodes,
or sees those that it is linked to. The graph is nothing but the mask: who is linked to whom is who may look at whom.

python examples/sets_graph.py
"""

from __future__ import annotations

import argparse

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table
from torch import Tensor, nn
from torch.nn import functional

import regard

NODES, LAYERS = 40, 2
console = Console(highlight=False)


class Camps(nn.Module):
    """What each node says in; two logits for each node out."""

    def __init__(self, width: int = 32):
        super().__init__()
        self.said, self.camp = nn.Embedding(2, width), nn.Linear(width, 2)
        self.encoder = regard.Encoder(LAYERS, width, heads=1, hidden=64)

    def forward(self, said: Tensor, mask: Tensor) -> Tensor:
        """(graphs, nodes) to (graphs, nodes, 2)."""
        logits: Tensor = self.camp(self.encoder(self.said(said), mask[:, None]))  # the same mask for every head
        return logits


def graphs(count: int) -> tuple[Tensor, Tensor, Tensor]:
    """Links (count, nodes, nodes), each node with itself too; what the nodes say, and where they belong."""
    camp = torch.randint(2, (count, NODES))
    same = camp[:, :, None] == camp[:, None, :]
    half = (torch.rand(count, NODES, NODES) < torch.where(same, 0.2, 0.02)).triu(1)
    said = torch.where(torch.rand(count, NODES) < 0.65, camp, 1 - camp)
    return half | half.mT | torch.eye(NODES).bool(), said, camp


def seen(links: Tensor, who: str) -> Tensor:
    """Whom a node may look at."""
    if who == "the graph":
        return links
    everyone = torch.ones_like(links)
    return everyone if who == "everyone" else everyone & torch.eye(NODES).bool()


def learn(who: str, updates: int) -> Camps:
    """From new graphs all the time."""
    torch.manual_seed(0)
    model = Camps()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.005)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.005, total_steps=updates)
    for _ in track(range(updates), f"{who:<10}", console=console, transient=True):
        links, said, camp = graphs(32)
        loss = functional.cross_entropy(model(said, seen(links, who)).flatten(0, 1), camp.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return model


def distances(links: Tensor) -> Tensor:
    """How many links lie between two nodes (graphs, nodes, nodes); NODES where there is no way."""
    away = torch.full(links.shape, NODES)
    reached = torch.eye(NODES).bool().expand_as(links)
    for steps in range(NODES):
        away = torch.where(reached, away.clamp(max=steps), away)
        reached = (reached.float() @ links.float()) > 0
    return away


@torch.no_grad()
def influence(model: Camps, links: Tensor, said: Tensor) -> dict[int, float]:
    """The greatest change of any node's logits when a node so many links away says the opposite."""
    away, before = distances(links), model(said, links)
    changes: dict[int, float] = {}
    for node in range(NODES):
        other = said.clone()
        other[:, node] = 1 - other[:, node]
        change = (model(other, links) - before).abs().amax(-1)  # graphs, nodes
        for steps in range(5):
            most = change[away[:, node] == steps]
            changes[steps] = max(changes.get(steps, 0.0), most.max().item() if most.numel() else 0.0)
    return changes


def main(quick: bool = False) -> dict[str, float]:
    """Learn three times, then ask who matters to whom; give the numbers that the test holds on to."""
    updates = 60 if quick else 200
    torch.manual_seed(1)
    links, said, camp = graphs(100)
    result: dict[str, float] = {}
    table = Table("a node may look at", "right", title="Which camp?")
    for who in ("itself", "everyone", "the graph"):
        model = learn(who, updates)
        with torch.no_grad():
            result[who] = model(said, seen(links, who)).argmax(-1).eq(camp).float().mean().item()
        table.add_row(who, f"{result[who]:.1%} [cyan]{'━' * round(30 * result[who])}")
    console.print(table)
    table = Table("links away", "moves a node's logits by up to", title="When another node says the opposite")
    for steps, change in influence(model, links[:20], said[:20]).items():
        table.add_row(str(steps), f"{change:.2f}" if change else "exactly 0")
        result[f"{steps} links"] = change
    console.print(table)
    console.print(f"{LAYERS} layers see {LAYERS} links far: what the mask hides cannot matter, not even by rounding.")
    return result


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a smaller run, as the tests do")
    main(parser.parse_args().quick)
