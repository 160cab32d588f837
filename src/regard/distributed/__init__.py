"""A sequence in shards: an attention matrix whose queries and keys lie on several ranks (context parallel).

Keys and values travel round the ring of ranks by torch.distributed; each rank computes the blocks of its queries with
the backends of a single device, and merges the results by the logsumexp. Read in this order:

ring.py            messages between ranks: agreement on each call, tensors passed on during the computation
share.py           which tokens lie on which rank, in zig-zag order to balance a causal mask; the part of the matrix on
                   a rank, and its blocks with the keys of any rank
results.py         products, normalisers, reductions, slices and gradients, block by block
sharded_matrix.py  `ShardedMatrix`: the surface of `AttentionMatrix` over these results; `attention`, its function form;
                   `shard`, `gather`
"""

from regard.distributed.sharded_matrix import ShardedMatrix, attention, gather, shard

__all__ = ["ShardedMatrix", "attention", "gather", "shard"]
