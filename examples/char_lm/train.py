"""Trains a small character language model with DistributedDataParallel over gloo.

Each rank is one process; Muster sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, so
`init_process_group` needs nothing else. Rank 0 prints the loss and saves the checkpoint; at the end all ranks
compare their weights, and the job fails if they differ.
"""

import argparse
import os
import sys
from typing import NoReturn

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class CharModel(nn.Module):
    """Predicts the next character: embedding, one GRU layer, linear read-out."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.readout = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Maps token ids [batch, time] to logits [batch, time, vocabulary]."""
        hidden, _ = self.gru(self.embedding(tokens))
        return self.readout(hidden)


def load_tokens(path: str) -> tuple[torch.Tensor, int]:
    """Returns the text as character ids [length] and the number of distinct characters."""
    with open(path, encoding="utf-8") as stream:
        text = stream.read()
    ids = {character: index for index, character in enumerate(sorted(set(text)))}
    return torch.tensor([ids[character] for character in text]), len(ids)


def batch(tokens: torch.Tensor, size: int, length: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws `size` pieces of `length` characters and the same shifted by one, each [size, length]."""
    starts = torch.randint(len(tokens) - length - 1, (size,), generator=generator)
    pieces = torch.stack([tokens[s:s + length + 1] for s in starts.tolist()])
    return pieces[:, :-1], pieces[:, 1:]


def weights_are_equal(model: nn.Module) -> bool:
    """True when every rank holds exactly the weights of rank 0."""
    mine = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    first = mine.clone()
    dist.broadcast(first, src=0)
    different = torch.tensor([0 if torch.equal(mine, first) else 1])
    dist.all_reduce(different)
    return different.item() == 0


def leave(status: int) -> NoReturn:
    """Ends the process without freeing the process group.

    With torch 1.13 that can deadlock: it waits for a thread of gloo, with the interpreter locked, and the thread waits
    for the interpreter to free its last tensor.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch_size", type=int, default=16, help="sequences per rank and step")
    parser.add_argument("--length", type=int, default=64, help="characters per sequence")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--checkpoint", required=True)
    arguments = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    print(f"local rank {os.environ['LOCAL_RANK']} of {os.environ['MUSTER_NODE']} joined a world of {world_size}")

    tokens, vocabulary = load_tokens(arguments.text)
    torch.manual_seed(0)
    model = DistributedDataParallel(CharModel(vocabulary, arguments.width))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loss_function = nn.CrossEntropyLoss()
    generator = torch.Generator().manual_seed(rank)  # Every rank draws other pieces of the text.

    for step in range(1, arguments.steps + 1):
        inputs, targets = batch(tokens, arguments.batch_size, arguments.length, generator)
        optimizer.zero_grad()
        loss = loss_function(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0 and (step == 1 or step % 5 == 0):
            print(f"step {step:3} loss {mean.item() / world_size:.3f}")

    if not weights_are_equal(model):
        print("the ranks hold different weights", file=sys.stderr)
        leave(1)
    if rank == 0:
        torch.save(model.module.state_dict(), arguments.checkpoint)
        print(f"all {world_size} ranks hold equal weights; checkpoint saved to {arguments.checkpoint}")
    dist.barrier()
    leave(0)


if __name__ == "__main__":
    main()
