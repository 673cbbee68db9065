"""The chart grammar that all figures share: labels, colours, axes, legends, tooltips, panels. Each file has one topic."""
