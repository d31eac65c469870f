"""A study: cells of runs, one store they end up in, engines that get them there."""
