# %% [markdown]
# # 13. The backward pass by hand
#
# How a model learns where to look: the gradient of attention in five lines, derived step by step and checked by
# autograd.
#
# Training asks one question of every number in a model: if this number grows a little, how much does the loss grow? The
# **loss** says how wrong an answer is (0 is right), and the answer to the question is the **gradient**. Every chapter
# so far left the gradient to PyTorch: `loss.backward()` goes backwards through all operations of the forward pass.
# PyTorch calls this **autograd**. For attention, autograd amounts to five lines:

# %%
import numpy as np
import torch

import regard
from regard import drawing, textbook


def backward(Q, K, V, dZ):
    """The gradients of queries, keys and values, from the gradient dZ of the output."""
    root = Q.shape[-1] ** 0.5
    A = (Q @ K.mT / root).softmax(-1)
    dV = A.mT @ dZ
    dA = dZ @ V.mT
    dS = A * (dA - (A * dA).sum(-1, keepdim=True))
    return dS @ K / root, dS.mT @ Q / root, dV


torch.manual_seed(0)
Q, K, V = (torch.randn(9, 16, dtype=torch.float64, requires_grad=True) for _ in range(3))
Z = regard.attention(Q, K, V)
dZ = torch.randn(9, 16, dtype=torch.float64)  # any gradient that may come from the layers above
for name, ours, theirs in zip("QKV", backward(Q, K, V, dZ), torch.autograd.grad(Z, (Q, K, V), dZ), strict=True):
    print(f"d{name}: largest difference from autograd {(ours - theirs).abs().max():.0e}")

# %% [markdown]
# We write dV for the gradient by V: it has the shape of V, and each of its numbers says how much the loss grows when
# that number of V grows by 1, measured for a very small step. The rest of the chapter derives the five lines.
#
# ## What a gradient is
#
# Take "I am good", and a loss that is easy to follow: the sum of all outputs, each times a fixed number. These fixed
# numbers are then the gradient dZ. Now nudge one number of V by a millionth, and see how the loss moves.

# %%
good = regard.steps(*textbook.i_am_good())
Q, K, V = (torch.from_numpy(each) for each in (good.queries, good.keys, good.values))
dZ = torch.randn(3, 64, dtype=torch.float64)


def loss(Q, K, V):
    return (regard.attention(Q, K, V) * dZ).sum().item()


def nudged(place, by=1e-6):
    """How much the loss grows when one number of V grows, for each unit of growth."""
    more, less = V.clone(), V.clone()
    more[place] += by
    less[place] -= by
    return (loss(Q, K, more) - loss(Q, K, less)) / (2 * by)


dQ, dK, dV = backward(Q, K, V, dZ)
for word, row in zip(good.words, range(3), strict=True):
    print(f"first number of v({word}): nudged {nudged((row, 0)):8.5f}, by the five lines {dV[row, 0]:8.5f}")

# %% [markdown]
# ## Back through the weighted sum
#
# The last step was Z = A V. A value v goes into every output, in the share of its weight. So each output sends its
# gradient back to the value, in the same share:
#
# $$
# dV = A^{\mathsf{T}}\,dZ \qquad dA = dZ\,V^{\mathsf{T}}
# $$
#
# The second formula is for the weights: if the weight that "I" gives to "am" grows, z("I") moves in the direction of
# v("am"), and the loss by the dot product of the two. For the first formula the matrix only has to be transposed, which
# is what `A.mT` is for. It is not stored either.

# %%
A = regard.AttentionMatrix(Q, K)
print("A.mT @ dZ is dV:", torch.allclose(A.mT @ dZ, dV))
dA = dZ @ V.mT
table = drawing.Table(dA.numpy(), "dA", rows=good.words, columns=good.words)
drawing.tables([table], caption="How much the loss grows with each weight.")

# %% [markdown]
# ## Back through the softmax
#
# A weight depends on *every* score of its row, because the row is divided by its sum. If the score of "am" grows, the
# weight of "am" grows, and those of all other words shrink. All of this stands in one table for each row, with a row
# for each weight and a column for each score. It is called the **Jacobian** of the softmax. For a row of weights p,
#
# $$
# J = \operatorname{diag}(p) - p\,p^{\mathsf{T}}
# $$
#
# that is p (1 − p) on the diagonal and −p q for two different words. For the row of "I":

# %%
p = A[0]
J = torch.diag(p) - torch.outer(p, p)
table = drawing.Table(J.numpy(), "J", rows=[f"weight of {word}" for word in good.words], columns=good.words)
drawing.tables([table], title="How the weights of “I” change with its scores")

# %%
by_autograd = torch.autograd.functional.jacobian(lambda scores: scores.softmax(-1), A.scaled[0])
print("the same as by autograd:", torch.allclose(J, by_autograd))
print("largest sum of a row:", f"{J.sum(1).abs().max():.0e}", " of a column:", f"{J.sum(0).abs().max():.0e}")

# %% [markdown]
# Each row adds up to 0: a number added to all scores changes no weight, as chapter 4 showed. Each column adds up to 0
# too: what one weight gains, the others lose. And if one weight is nearly 1, all of J is nearly 0. That is the
# saturation of chapter 3, and the reason for dividing by √d.
#
# The Jacobian need not be built. The gradient of the scores is J times the gradient of the weights, and the product is
# short when written out: each gradient dA, compared with the mean over the row, times its weight.
#
# $$
# dS_j = p_j \Bigl(dA_j - \sum_k p_k\,dA_k\Bigr)
# $$
#
# A word that makes the loss larger than the mean of its row has a positive gradient, and training lowers its score; a
# word that makes it smaller gets a higher one. So attention moves towards words that help more than those it has.

# %%
dS = A.to_dense() * (dA - (A.to_dense() * dA).sum(-1, keepdim=True))
print("J @ dA is the row of “I”:", torch.allclose(J @ dA[0], dS[0]))
for word, weight, gain, score in zip(good.words, p, dA[0] - p @ dA[0], dS[0], strict=True):
    print(f"{word:5} weight {weight:5.1%}   dA − mean {gain:7.2f}   dS {score:7.3f}")

# %% [markdown]
# ## Back to queries and keys
#
# Scores are QKᵀ / √d, one more matrix product. So
#
# $$
# dQ = dS\,K / \sqrt{d} \qquad dK = dS^{\mathsf{T}}\,Q / \sqrt{d}
# $$
#
# A query is pulled towards the keys whose scores should grow, and a key towards the queries that should find it. The
# matrices W come last: Q = X W_Q, so their gradient is Xᵀ dQ.

# %%
done = regard.steps(*textbook.i_am_good())
X, W_Q = torch.from_numpy(done.x), torch.from_numpy(done.w_q).requires_grad_()
(regard.attention(X @ W_Q, K, V) * dZ).sum().backward()
print("dW_Q = Xᵀ dQ:", torch.allclose(X.mT @ dQ, W_Q.grad), tuple(W_Q.grad.shape))

# %% [markdown]
# ## Without storing the matrix
#
# The five lines use A, which has n × n numbers, and autograd would keep it from the forward pass. Fast kernels do not.
# They need two facts:
#
# - A row of weights can be computed again from its query, if the sum of its exps was kept: one number for each row.
#   (`regard` keeps its logarithm, `A.logsumexp`.)
# - The mean over a row, Σ p dA, is the dot product of z and dz: it can be read off the output.
#
# Then the gradient can be collected block by block. Here with blocks of 64 rows:

# %%
torch.manual_seed(0)
Q, K, V, dZ = torch.randn(4, 1000, 32, dtype=torch.float64).unbind(0)
A = regard.AttentionMatrix(Q, K)  # holds queries and keys, and one number for each row
Z = A @ V
means = (dZ * Z).sum(-1, keepdim=True)
dQ, dK, dV, largest = torch.zeros_like(Q), torch.zeros_like(K), torch.zeros_like(V), 0
for start in range(0, 1000, 64):
    rows = slice(start, start + 64)
    P = A[rows]  # some rows of the weights, computed again
    dS = P * (dZ[rows] @ V.mT - means[rows])
    dV += P.mT @ dZ[rows]
    dQ[rows] = dS @ K / 32**0.5
    dK += dS.mT @ Q[rows] / 32**0.5
    largest = max(largest, P.numel())
for name, by_blocks, at_once in zip("QKV", (dQ, dK, dV), backward(Q, K, V, dZ), strict=True):
    print(f"d{name}: the same as at once: {torch.allclose(by_blocks, at_once)}")
print(f"largest block {largest:,} numbers; the whole matrix has {1000 * 1000:,}")

# %% [markdown]
# ## Learning by hand
#
# Chapter 2 taught "it" to look at "dog" with autograd. Here is the same with our own gradient. The loss is −log of the
# weight that "it" gives to "dog". Its gradient by the scores of the row is p − 1 at "dog" and p everywhere else: this
# is dS for a loss that is put on the weights themselves.

# %% Take 60 steps with our own gradient of W_Q, and 60 with that of autograd
words = textbook.dog()[4]
it, dog = words.index("it"), words.index("dog")
torch.manual_seed(1)
X, W_Q, W_K = (torch.randn(*shape, dtype=torch.float64) for shape in ((len(words), 16), (16, 8), (16, 8)))
W_Q, W_K = W_Q / 4, W_K / 4
by_autograd = W_Q.clone().requires_grad_()
shares, theirs = [], []
for _ in range(60):
    A = regard.AttentionMatrix(X @ W_Q, X @ W_K)
    shares.append(A[it, dog].item())
    dS = torch.zeros(len(words), len(words), dtype=torch.float64)
    dS[it] = A[it]
    dS[it, dog] -= 1
    dQ = dS @ (X @ W_K) / 8**0.5
    W_Q = W_Q - 0.02 * X.mT @ dQ
    share = regard.AttentionMatrix(X @ by_autograd, X @ W_K)[it, dog]  # and once more, by autograd
    theirs.append(share.item())
    (gradient,) = torch.autograd.grad(-share.log(), by_autograd)
    by_autograd = (by_autograd - 0.02 * gradient).detach().requires_grad_()
print(f"“it” looks at “dog”: {shares[0]:.0%} before, {shares[-1]:.0%} after 60 steps")
print("the same with autograd, at every step:", np.allclose(shares, theirs))
drawing.curves({"how much “it” looks at “dog”": (np.arange(60), np.array(shares))})

# %% [markdown]
# ## What we have
#
# - dV = Aᵀ dZ: each output sends its gradient to the values, in the shares of the weights.
# - Through the softmax, the gradient of a score is its weight, times how far the gradient of that weight is above the
#   mean of the row. The Jacobian is diag(p) − p pᵀ.
# - dQ and dK are two more matrix products. With one number for each row, the matrix is computed again in blocks instead
#   of being stored.
#
# Last, a whole model learns, and something appears in it that nobody asked for: [an induction head
# appears](14_an_induction_head_appears.py).

# %% [markdown]
# ## Write it yourself
#
# Write these functions, and run the cell: `check` compares each with ours on random inputs, and says what differs. In
# the terminal, `regard quiz --code 13` does the same with a file.

# %%
from regard.learn import check


def softmax_backward(weights, gradient):
    """The gradient of a loss by the scores, from its gradient by the weights: (queries, keys).

    weights: (queries, keys), the softmax of each row of scores. In a row, weight i changes with score j by
        w_i (1 − w_i) if i = j, else by −w_i w_j.
    gradient: (queries, keys), how much the loss changes with each weight.
    """
    raise NotImplementedError("write it here")


check(13, softmax_backward)

# %%


def attention_backward(queries, keys, values, gradient):
    """The gradients of a loss by queries, keys and values, for attention without a mask: three arrays.

    queries, keys: (words, d).
    values: (words, d_v).
    gradient: (words, d_v), by the output softmax(QKᵀ / √d) V.
    """
    raise NotImplementedError("write it here")


check(13, attention_backward)
