"""Colors of figures that color-blind readers can tell apart (Okabe and Ito)."""

BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#777777"
# The lighter blue and orange of the same palette, for a dark background.
DARK_BLUE, DARK_ORANGE = "#56b4e9", "#e69f00"
