"""How each variant looks in every figure: a colour, a mark and a dash, so that no two depend on colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from slicewise.lab.colours import BLUE, GREEN, GREY, ORANGE

_DASHED, _DOTTED, _MIXED = (5.0, 3.0), (1.5, 2.0), (7.0, 2.0, 1.5, 2.0)


@dataclass(frozen=True)
class Look:
    """A colour that reads on white and on black, and a mark: its name for matplotlib, its outline as SVG."""

    colour: str
    mark: str
    outline: str  # of a mark in the square from −1 to 1
    dash: tuple[float, ...] = ()  # lengths drawn and left out; nothing: a solid line


LOOKS = {
    "sw": Look(BLUE, "o", "M-1,0A1,1,0,1,1,1,0A1,1,0,1,1,-1,0Z"),
    "maxsw": Look(ORANGE, "s", "M-.9,-.9H.9V.9H-.9Z"),
    "dsw": Look(GREEN, "^", "M0,-1L1,.8H-1Z"),
    "maxksw": Look("#c06a98", "v", "M0,1L1,-.8H-1Z"),
    "imsw": Look("#b07900", "D", "M0,-1.1L.9,0L0,1.1L-.9,0Z", _DOTTED),
    "vimsw": Look("#3a94cf", "P", "M-.4,-1H.4V-.4H1V.4H.4V1H-.4V.4H-1V-.4H-.4Z", _MIXED),
    "omsw": Look("#8a6bbf", "X",
                 "M-1,-.6L-.6,-1L0,-.4L.6,-1L1,-.6L.4,0L1,.6L.6,1L0,.4L-.6,1L-1,.6L-.4,0Z", _DASHED),
    "rmsw": Look(GREY, "*",
                 "M0,-1.2L.35,-.49L1.14,-.37L.57,.19L.71,.97L0,.6L-.71,.97L-.57,.19L-1.14,-.37L-.35,-.49Z", _MIXED),
    "ebsw": Look("#b0406a", "<", "M-1,0L.8,-1V1Z", _DASHED),
    "rpsw": Look("#2f8f80", ">", "M1,0L-.8,-1V1Z", _DOTTED),
    "ebrpsw": Look("#85852c", "h", "M-.5,-.87H.5L1,0L.5,.87H-.5L-1,0Z", _DASHED),
}  # fmt: skip
