"""How each variant looks in every figure: a colour, a mark and a dash, so that no two depend on colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.lab.colours import BLUE, GREEN, GREY, ORANGE


@dataclass(frozen=True)
class Look:
    """A colour that reads on white and on black, and a mark: its name for matplotlib, its outline as SVG."""

    colour: str
    mark: str
    outline: str  # of a mark in the square from −1 to 1
    dashed: bool = False


LOOKS = {
    "sw": Look(BLUE, "o", "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z"),
    "maxsw": Look(ORANGE, "s", "M-.9,-.9H.9V.9H-.9Z"),
    "dsw": Look(GREEN, "^", "M0,-1L1,.8H-1Z"),
    "maxksw": Look("#cc79a7", "v", "M0,1L1,-.8H-1Z"),
    "imsw": Look("#e69f00", "D", "M0,-1.1L.9,0L0,1.1L-.9,0Z"),
    "vimsw": Look("#56b4e9", "P", "M-.4,-1H.4V-.4H1V.4H.4V1H-.4V.4H-1V-.4H-.4Z"),
    "omsw": Look("#8a6bbf", "X",
                 "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z", True),
    "rmsw": Look(GREY, "*",
                 "M0,-1.2L.35,-.49L1.14,-.37L.57,.19L.71,.97L0,.6L-.71,.97L-.57,.19L-1.14,-.37L-.35,-.49Z", True),
    "ebsw": Look("#b0406a", "<", "M-1,0L.8,-1V1Z", True),
    "rpsw": Look("#44aa99", ">", "M1,0L-.8,-1V1Z", True),
    "ebrpsw": Look("#999933", "h", "M-.5,-.87H.5L1,0L.5,.87H-.5L-1,0Z", True),
}  # fmt: skip
