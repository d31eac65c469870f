"""Colors of figures, told apart by color-blind readers (Okabe and Ito's)."""

BLUE, ORANGE, GREEN, GRAY = "#0072b2", "#d55e00", "#009e73", "#777777"
