"""How many steps learning takes: flows, rules and networks, each against what it promises."""
