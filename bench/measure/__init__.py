"""Side-by-side runs: the product, its peers and the machine's own limits, on one timetable."""
