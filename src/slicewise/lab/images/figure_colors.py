"""Colors of figures that color-blind readers can tell apart (Okabe and Ito)."""

BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#777777"
