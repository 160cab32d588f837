"""See the attention of a running model: who computes it, with what queries, keys and masks.

Read in this order:

session.py        `watch`: the `with` block, its hooks, and what the class of each module tells
huggingface.py    one way to capture: Hugging Face models; the only file here that imports transformers
torch_modules.py  the others: regard's own layers, and modules with code of their own, by what they call
calls.py          `AttentionCall`: one call of an attention function; `attend`, which brings it to the watchers
masks.py          `Pattern` and `LazyMask`: masks as rules, without queries × keys numbers
links.py          `Link` and `Changes`: attention that is cut or steered, and heads that the model runs without
activations.py    `Activation`: a part of heads, or the output of a module, that is taken from another run
passes.py         `Passes`, which folds the calls, `Pass` and `ModuleCalls`: what each module computed on one text
steps.py          the calls of a generation, or of the hypotheses of a beam search, as one call
"""
