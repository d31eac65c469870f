"""The words that the command line offers, known without importing what they name.

Help, completion and errors take them from here, and no torch with them. Rooms of lab that own such words import them from
here; names of the library are the library's, and a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

# Those of `slicewise.VARIANTS`, in its order.
VARIANTS = (
    *("sw", "orthosw", "maxsw", "maxksw", "ksw", "dsw", "vdsw", "omsw", "rmsw", "imsw", "vimsw"),
    *("ebsw", "rpsw", "ebrpsw", "phisw", "gsw", "maxgsw", "asw", "qsw", "rqsw", "lcvsw", "ucvsw"),
    *(
        "gaussiansw",
        "momentsw",
        "sirebsw",
        "imhebsw",
        "rmhebsw",
        "ssw",
        "linearssw",
        "s3w",
        "ris3w",
    ),
)
# Those of `slicewise.distance.Objective`.
OBJECTIVES = ("power", "root", "mean_root")
HEADERS = ("auto", "yes", "no")
DTYPES = ("float64", "float32")
# Those of `slicewise.variants.PRESETS`.
RECIPES = ("paper", "flow_script", "color_script", "dg")
# Those of `slicewise.color.LOOKS`.
LOOKS = ("natural", "exact", "linear")

# Those of `slicewise.color.spaces.SPACES`.
SPACES = ("srgb", "linear", "oklab", "cielab")

TOYS = ("swiss", "8gaussians", "knot")

THEORY = "theory"
GRADIENT_FLOW = "gradient-flow"
IMAGE_FLOW = "image-flow"
COLOR = "color"
GENERATE = "generate"
TRANSLATE = "translate"
ESTIMATORS = "estimators"
EXPERIMENTS = (THEORY, GRADIENT_FLOW, IMAGE_FLOW, COLOR, GENERATE, TRANSLATE, ESTIMATORS)
PRESETS = ("quick", "paper")
# Parts of an experiment, in the order they are made: step lengths computed; displacement 0.1; searched rates (of networks
# first 0.001, 0.003, … 1 on the root); rates of Adam; the paper's other rates; its rates on the mean of W_2 over slices; times
# of single runs. Flows have those in `FLOW_PARTS`.
NO_RATE = "no-rate"
ONE_RATE_PART = "one-rate"
FIRST_SEARCH = "search"
ADAM_SEARCH = "adam"
OTHER_SEARCH = "other-rates"
MEAN_ROOT_SEARCH = "mean-root"
TIMES = "times"
LATENT_PARTS = (
    NO_RATE, ONE_RATE_PART, FIRST_SEARCH, ADAM_SEARCH, OTHER_SEARCH, MEAN_ROOT_SEARCH, TIMES,
)  # fmt: skip
FLOW_PARTS = (NO_RATE, FIRST_SEARCH, TIMES)
# Which experiments use an option.
OPTION_USERS: Mapping[str, Sequence[str]] = {
    "--convention": (GRADIENT_FLOW, IMAGE_FLOW),
    "--mnist": (IMAGE_FLOW,),
    "--faces": (IMAGE_FLOW,),
    "--photographs": (COLOR,),
    **dict.fromkeys(
        ("--latents", "--labels", "--held-out", "--adult", "--child", "--more"),
        (GENERATE, TRANSLATE),
    ),
    **dict.fromkeys(("--dtype", "--recipes"), (GRADIENT_FLOW, IMAGE_FLOW, COLOR)),
    **dict.fromkeys(
        ("--only", "--variant", "--setting", "--objective", "--rate", "--seed", "--max-steps"),
        (GRADIENT_FLOW, IMAGE_FLOW, COLOR, GENERATE, TRANSLATE),
    ),
}

# Ages of the paper: above the first is an adult, below the second a child.
ADULT: float = 18
CHILD: float = 10
