"""Every architecture of transformers, held to eager attention: `sweep` compares one of them.

`architectures` builds a small model (`architecture_sizes`), `architecture_inputs` feeds it, `architecture_exceptions`
lists what differs and why; `image_models` holds models that see pictures.
"""
