"""Images in a model's input: which tokens are patches, and the pictures over them.

Read in this order:

patches.py   `Grid` and `Patch`: the tokens of an image, and where they lie in it
families.py  how each family of models reads an image
images.py    the images of one pass: which tokens are their patches, in tower and language model
framing.py   a picture of the user's, and which part of it each patch saw
overlays.py  what a word looks at, over the picture
"""
