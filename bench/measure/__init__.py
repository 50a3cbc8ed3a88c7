"""Side-by-side benchmarks of Playmeter, its peers and the machine's own limits."""
