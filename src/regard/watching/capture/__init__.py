"""See the attention of a running model: who computes it, with what queries, keys and masks.

Read in this order:

session.py      `watch`: the `with` block, its hooks, and what the class of each module tells
own_layers.py   the first way to capture: regard's own layers, and what other modules compute with regard
huggingface.py  the second: Hugging Face models; the only file that imports transformers
plain_torch.py  the third: modules with code of their own, by what they call of torch and of regard
events.py       the small frozen events that all three emit, and who watches which module
calls.py        `AttentionCall`: one call of an attention function, with its heads among the heads of all ranks
masks.py        `Pattern` and `LazyMask`: masks as rules, without queries × keys numbers
links.py        `Link` and `Changes`: attention that is cut or steered, and heads that the model runs without
passes.py       `Passes`, which folds the events, `Pass` and `ModuleCalls`: what each module computed on one text
steps.py        the calls of a generation, or of the hypotheses of a beam search, as one call
"""
