"""Images in a model's input: which tokens are patches, and pictures over the image.

Read in this order:

families.py  `Grid` and `Patch`; how each family of models reads an image
diffusion.py the image that a model of diffusers paints: which tokens are its patches, in each block and step
images.py    the images of one pass: which tokens are their patches, in the vision tower and in the language model
overlays.py  what a word looks at, drawn over the image
"""
