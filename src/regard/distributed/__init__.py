"""A sequence in shards: an attention matrix whose queries and keys lie on several ranks (context parallel).

Keys and values go round the ring of ranks by torch.distributed; each rank computes the blocks of its own queries with
the backends of a single device, and merges what they give by the logsumexp. Read in this order:

layout.py          which tokens lie on which rank; in zig-zag order, so that a causal mask is shared out evenly
sharding.py        `shard` and `gather`: from a whole sequence to each rank's share of it, and back
ring.py            what ranks say to each other: agreement on each call, tensors passed on while others are computed
share.py           what a rank has of a matrix, and the blocks that it makes of it with others' keys
results.py         products, normalisers and reductions, block by block
gradients.py       the same as functions that autograd knows
slices.py          `A[…]`, the same on all ranks
dtensors.py        queries and keys that are DTensors
sharded_matrix.py  `ShardedMatrix`, each method a few lines over the others
functional.py      `attention`, the function form
"""

from regard.distributed.functional import attention
from regard.distributed.sharded_matrix import ShardedMatrix
from regard.distributed.sharding import gather, shard

__all__ = ["ShardedMatrix", "attention", "gather", "shard"]
