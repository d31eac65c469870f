"""Colours of figures, told apart by colour-blind readers (Okabe and Ito's)."""

BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#777777"
