"""
The colors of one photograph on another
=======================================

Pixels are samples in a three-dimensional color space, and a color transfer moves one cloud of colors onto another. The
look ``natural`` follows the target as far as the image shows no artifacts; ``strength`` goes part of the way.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_sample_images

import slicewise as sw
from slicewise.color import ColorTransfer

temple, flower = (image[::5, ::5] for image in load_sample_images().images)
look = ColorTransfer(generator=0).fit(temple, flower)
half, whole = look.transform(temple, strength=0.5), look.transform(temple)


def distance(image):
    """SW_2 between the colors of an image and of the flower, on the scale 0 to 255."""
    return sw.sliced_wasserstein(
        image.reshape(-1, 3).astype("float32"), flower.reshape(-1, 3).astype("float32"), generator=0
    )


pictures = {"source": temple, "half strength": half, "natural": whole, "target": flower}
fig, axes = plt.subplots(1, 4, figsize=(10, 2.4))
for ax, (name, picture) in zip(axes, pictures.items(), strict=True):
    ax.imshow(picture)
    ax.set_title(f"{name}" if name == "target" else f"{name}: SW$_2$ {distance(picture):.0f}")
    ax.set_axis_off()
fig.suptitle("The palette comes nearer, the picture stays")
plt.show()

# %%
# Photographs: China and Flower, from scikit-learn. On the command line: ``slicewise transfer temple.jpg flower.jpg -o new.jpg``.

assert distance(whole) < distance(half) < distance(temple)
